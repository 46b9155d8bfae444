"""Searching on Food-11 in a lab of plain processes. That a training resumes is lesson 7's."""

from __future__ import annotations

import pytest

from tests.e2e.food11 import SearchTests
from tests.e2e.harness import Bench


@pytest.mark.rare
class TestSearch(SearchTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
