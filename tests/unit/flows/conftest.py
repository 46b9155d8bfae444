from __future__ import annotations

from pathlib import Path

import pytest

from lab.faults import FAULTS
from lab.faults.kinds.pause import Pause
from lab.host.files import HOME_VARIABLE
from tests.unit.flows.world import Drill


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Drill:
    """A lab that is up, with a clock of its own for faults as well, and a home for its journal."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    world = Drill()
    monkeypatch.setitem(FAULTS, "pause", lambda: Pause(world.clock))
    return world
