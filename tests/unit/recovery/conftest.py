from __future__ import annotations

import pytest

from lab.faults import FAULTS
from lab.faults.pause import Pause
from tests.unit.recovery.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A lab that is up, with a clock of its own for faults as well."""
    world = World()
    monkeypatch.setitem(FAULTS, "pause", lambda: Pause(world.clock, world.clock.sleep))
    return world
