"""Queues of a lab of plain processes."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Bench
from tests.e2e.queues import QueueTests


class TestQueues(QueueTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
