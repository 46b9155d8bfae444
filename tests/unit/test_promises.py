"""Each promise names tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.promises import PROMISES, shown_by

NAMED = [test for tests in PROMISES.values() for test in tests]


@pytest.mark.parametrize("name", NAMED)
def test_it_names_a_test(name: str) -> None:
    path, _, function = name.partition("::")
    folder = (ROOT / "tests" / path).parent
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]  # some tests are inherited
    assert (ROOT / "tests" / path).is_file()
    beginning = re.escape(function.rpartition("::")[2].partition("[")[0]) or "test_"
    assert any(re.search(rf"def {beginning}", source) for source in sources)


def test_a_test_shows_a_promise_by_the_beginning_of_its_id() -> None:
    assert shown_by("tests/e2e/test_demo.py::test_one_command_boots")
    assert not shown_by("tests/e2e/test_daemons.py::test_a_loop")
    assert not shown_by("tests/unit/test_demo.py::test_one_command_boots")
