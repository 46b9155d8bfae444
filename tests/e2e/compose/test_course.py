"""Scripts of the course in a lab of containers, which reach no package index here."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.course import CourseTests


@pytest.mark.rare
class TestCourse(CourseTests):
    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box
