"""The recipe `llm`: its modules import each other by bare names, since Ray puts their folder on the path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.recipes import modules_of


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
    with modules_of("llm") as modules:
        yield modules
