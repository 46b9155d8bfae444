"""A controller of queues in a world of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.daemons.queue.world import ControllerLab


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControllerLab]:
    made = ControllerLab(tmp_path)
    yield made
    made.close()
