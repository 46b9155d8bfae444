"""The recipe `llm` in a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.llm import LanguageModelTests


@pytest.mark.rare
class TestLanguageModel(LanguageModelTests):
    def on_head(self, shell: ContainerBench, *argv: str) -> str:
        return shell.exec("ray-head", *argv)
