"""The recipe `llm`: its modules import each other by bare names, since Ray puts their folder on the path."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.recipes import modules_of

needs_gcc = pytest.mark.skipif(
    sys.platform != "linux" or not (os.environ.get("CC") or shutil.which("gcc")),
    reason="needs GCC: this is not Linux, or there is no command `gcc` and CC is not set",
)
"""Skips a test of decode.c where it cannot be compiled. With --no-skips, as in CI, that is a failure."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other take longer than these small matrices."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def llm() -> Iterator[Any]:
    """Every module of the recipe, by its name."""
    with modules_of("llm") as found:
        yield found
