"""Searching with Ray Tune on Food-11 in a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.food11 import SearchTests


class TestSearch(SearchTests):
    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box
