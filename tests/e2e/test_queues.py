"""Queues of a lab of plain processes."""

from __future__ import annotations

from tests.e2e.queues import QueueTests


class TestQueues(QueueTests):
    """On plain processes."""
