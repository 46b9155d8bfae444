"""Imports of notebooks: `Session` is in lab/ext/course, queues are asked by a `QueueRequest`."""

from __future__ import annotations

from importlib import import_module

from lab.cluster.queue_request import QueueRequest
from lab.cluster.retries import RetryPolicy
from lab.flows.queues.examples import example

__all__ = ["QueueRequest", "RetryPolicy", "Session", "example"]  # noqa: F822 - see lessons.pyi


def __getattr__(name: str) -> object:
    if name == "Session":  # by its name: the core imports no extension
        return import_module("lab.ext.course.lessons.session").Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
