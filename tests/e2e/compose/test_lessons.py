"""Lessons on a lab of containers: those that train on both workers, lose a node or a GPU, or borrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.lessons import LessonTests


@pytest.mark.rare
class TestLessons(LessonTests):
    LESSONS = (5, 6, 7, 8, 10, 11)

    @pytest.fixture(scope="class")
    @classmethod
    def own(cls, make_container_bench: Callable[[], ContainerBench]) -> ContainerBench:
        return make_container_bench()

    @pytest.fixture
    def shell(self, own: ContainerBench) -> ContainerBench:
        return own
