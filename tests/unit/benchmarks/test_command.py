"""The command line of the benchmarks."""

from __future__ import annotations

import re

from benchmarks import __main__ as command
from tests.conftest import ROOT


def test_the_page_describes_every_benchmark() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    described = set(re.findall(r"^### ([a-z-]+)", page, re.MULTILINE))
    assert described == {*command.IN_TURN, *command.OTHERS}
