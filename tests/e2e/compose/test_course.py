"""Scripts of the course in a lab of containers, which reach no package index here."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.course import AS_GIVEN, CourseTests


class TestCourse(CourseTests):
    LINES = ((AS_GIVEN, 2, 1.0),)  # half a GPU is what lesson 6 is about, on containers too

    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box
