"""Imports of notebooks: `Session` is in lab/flows/lessons, queues are asked by a `QueueRequest`."""

from lab.cluster.queue_request import QueueRequest
from lab.cluster.retries import RetryPolicy
from lab.flows.lessons import Session
from lab.flows.queues.examples import example

__all__ = ["QueueRequest", "RetryPolicy", "Session", "example"]
