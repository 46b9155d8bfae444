"""The lesson that loses a node, on a lab of containers; its class breaks it from the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.lessons.catalogue import numbers
from tests.e2e.compose.bench import ContainerBench
from tests.e2e.lessons import LessonTests

DONE = (7,)


class TestLessons(LessonTests):
    @pytest.fixture(scope="class")
    def own(self, make_container_bench: Callable[[], ContainerBench]) -> ContainerBench:
        return make_container_bench()

    @pytest.fixture
    def shell(self, own: ContainerBench) -> ContainerBench:
        return own

    def done(self) -> tuple[int, ...]:
        return tuple(number for number in DONE if number in numbers())
