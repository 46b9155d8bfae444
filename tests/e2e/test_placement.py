"""Where jobs sit and why they wait, in a lab of plain processes."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Bench
from tests.e2e.placement import PlacementTests


class TestPlacement(PlacementTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
