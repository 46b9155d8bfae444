"""Containers of a class that lends a worker."""

from __future__ import annotations

from lab.runtime.compose.runtime import ComposeRuntime
from tests.unit.runtime.compose.fake_docker import spec
from tests.unit.runtime.test_lent import is_lent


def test_a_worker_that_is_lent_is_none_of_the_class(runtime: ComposeRuntime) -> None:
    is_lent(runtime, spec())
