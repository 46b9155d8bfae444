"""Where jobs sit and why they wait, in a lab of plain processes."""

from __future__ import annotations

from tests.e2e.placement import PlacementTests


class TestPlacement(PlacementTests):
    """On plain processes."""
