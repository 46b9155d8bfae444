"""Where jobs sit and why they wait, in a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.placement import PlacementTests


@pytest.mark.rare
class TestPlacement(PlacementTests):
    """In containers."""
