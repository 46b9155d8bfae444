"""The recipe `llm` in a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.llm import LanguageModelTests


@pytest.mark.rare
class TestLanguageModel(LanguageModelTests):
    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box
