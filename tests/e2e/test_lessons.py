"""Every lesson, on a lab of plain processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.harness import Bench
from tests.e2e.lessons import LessonTests


class TestLessons(LessonTests):
    LONG = (3, 7, 11)
    RARE = (5, 6, 8, 10, 12, 13)

    @pytest.fixture(scope="class")
    @classmethod
    def own(cls, make_bench: Callable[[], Bench]) -> Bench:
        """A lab of their own: the commands of the course need 8 CPUs on each worker."""
        return make_bench()

    @pytest.fixture
    def shell(self, own: Bench) -> Bench:
        return own
