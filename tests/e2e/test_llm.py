"""The recipe `llm` in a lab of plain processes."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.e2e.llm import LanguageModelTests


@pytest.mark.rare
class TestLanguageModel(LanguageModelTests):
    gpus = 1
    """Simulated: replicas are placed by them, and so is the check of their answers."""

    def on_head(self, shell: Any, *argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
