from lab.cluster.queue_request import QueueRequest as QueueRequest
from lab.cluster.retries import RetryPolicy as RetryPolicy
from lab.ext.course.lessons.session import Session as Session
from lab.flows.queues.examples import example as example

__all__ = ["QueueRequest", "RetryPolicy", "Session", "example"]
