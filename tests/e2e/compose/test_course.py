"""Scripts of the course in a lab of containers, which reach no package index here."""

from __future__ import annotations

import pytest

from tests.e2e.course import CourseTests


@pytest.mark.rare
class TestCourse(CourseTests):
    """In containers."""
