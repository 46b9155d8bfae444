"""The command line of the benchmarks."""

from __future__ import annotations

import re

from benchmarks import __main__ as command
from benchmarks.checkouts import Side
from benchmarks.compare import Found
from tests.conftest import ROOT


def test_the_page_describes_every_benchmark() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    described = set(re.findall(r"^### ([a-z-]+)", page, re.MULTILINE))
    assert described == {*command.IN_TURN, *command.AGAINST, *command.OTHERS}


def test_this_checkout_is_compared_with_each_of_the_others() -> None:
    results = Found({("a", "up"): {0: 2.0}, ("b", "up"): {0: 4.0}, ("c", "up"): {0: 8.0}})
    compared = [Side(name, ROOT) for name in "abc"]
    made = command.compared_rows(results, compared, "MB")
    assert [(row.peer, row.ratio, row.unit) for row in made] == [("b", 2.0, "MB"), ("c", 4.0, "MB")]
