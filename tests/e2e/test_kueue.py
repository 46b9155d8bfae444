"""Kueue's own scheduler as the judge of the lab's queues: both decide about the same scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from kueue.victims import Search
from tests.oracle.draw import drawn
from tests.oracle.known import KNOWN
from tests.oracle.process import Oracle, built, differing

MANY, VERY_MANY = 2_000, 100_000
"""Scenarios of one cycle: of every run, and before a release."""

DAYS, MANY_DAYS, CYCLES = 20, 200, 50
"""The same of whole days, and the cycles of each."""

SHOWN = 3
"""Scenarios that a failure shows."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(built()) as started:
        yield started


def shown(oracle: Oracle, numbers: Iterable[int], cycles: int = 1) -> str:
    """The first scenarios about which the lab decides otherwise."""
    return "\n".join(islice(differing(oracle, numbers, cycles), SHOWN))


def test_the_lab_decides_as_kueue(oracle: Oracle) -> None:
    wrong = shown(oracle, range(MANY))
    assert not wrong, wrong


def test_days_of_the_lab_go_as_those_of_kueue(oracle: Oracle) -> None:
    wrong = shown(oracle, range(DAYS), CYCLES)
    assert not wrong, wrong


@pytest.mark.rare
def test_the_lab_decides_as_kueue_a_hundred_thousand_times(oracle: Oracle) -> None:
    wrong = shown(oracle, range(MANY, VERY_MANY))
    assert not wrong, wrong


@pytest.mark.rare
def test_many_days_of_the_lab_go_as_those_of_kueue(oracle: Oracle) -> None:
    wrong = shown(oracle, range(DAYS, MANY_DAYS), CYCLES)
    assert not wrong, wrong


def test_a_lab_that_preempts_nobody_is_told_from_kueue(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Search, "run", lambda search: [])
    assert sum(bool(oracle.compare(*drawn(number), tries=0)) for number in range(100)) > 5


@pytest.mark.parametrize("decision", KNOWN)
def test_kueue_decides_otherwise_where_the_documents_say_so(oracle: Oracle, decision: str) -> None:
    assert oracle.compare(KNOWN[decision], [{}])
