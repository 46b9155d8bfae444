"""The lessons that train on more than one node or lose one, on a lab of containers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.lessons.catalogue import numbers
from tests.e2e.compose.bench import ContainerBench
from tests.e2e.lessons import LessonTests

DONE = (5, 6, 7, 8)


class TestLessons(LessonTests):
    @pytest.fixture(scope="class")
    def own(self, make_container_bench: Callable[[], ContainerBench]) -> ContainerBench:
        return make_container_bench()

    @pytest.fixture
    def shell(self, own: ContainerBench) -> ContainerBench:
        return own

    def done(self) -> tuple[int, ...]:
        return tuple(number for number in DONE if number in numbers())
