"""Where jobs sit and why they wait, in a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.placement import PlacementTests


@pytest.mark.rare
class TestPlacement(PlacementTests):
    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box
