"""Queues of a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.queues import QueueTests


@pytest.mark.rare  # the controller is the same on both runtimes
class TestQueues(QueueTests):
    """In containers."""
