from __future__ import annotations

import pytest

from tests.unit.flows.world import Drill


@pytest.fixture
def world() -> Drill:
    """A fake lab that is up."""
    return Drill()
