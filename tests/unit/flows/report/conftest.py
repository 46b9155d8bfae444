from __future__ import annotations

import pytest

from tests.unit.flows.world import World


@pytest.fixture
def world() -> World:
    """A fake lab that is up."""
    return World()
