"""The recipe `llm` in a lab of plain processes."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Bench
from tests.e2e.llm import LanguageModelTests


@pytest.mark.rare
class TestLanguageModel(LanguageModelTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
