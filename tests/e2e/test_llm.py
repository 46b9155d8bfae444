"""The recipe `llm` in a lab of plain processes."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Bench
from tests.e2e.llm import LanguageModelTests


@pytest.mark.rare
class TestLanguageModel(LanguageModelTests):
    gpus = 1
    """Simulated: replicas are placed by them, and so is the check of their answers."""

    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
