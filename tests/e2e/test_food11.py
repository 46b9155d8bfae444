"""Searching on Food-11 in a lab of plain processes. That a training resumes is lesson 7's."""

from __future__ import annotations

import pytest

from tests.e2e.food11 import SearchTests


@pytest.mark.rare
class TestSearch(SearchTests):
    """On plain processes."""
