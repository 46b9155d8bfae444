"""Waiting times of a user: for the lab, and for its first recovery."""

from __future__ import annotations

from pathlib import Path

from benchmarks.checkouts import OURS, Side, cli_lab, nodes_alive, recovered_in, sides
from benchmarks.compare import Figures, Found, Measure, Row, by_turns, rows
from benchmarks.measure import say
from lab.host.files import ROOT

FIRST = ("fault to first new step", "fault to first new epoch", "the whole demo")
"""Figures of a demo."""


def demos(runs: int) -> tuple[list[Row], Found]:
    """Measure the first recovery of a lab, right after its `up`: `labctl demo`, each time in a new lab."""
    turns = by_turns({"demo": {OURS: _demo}}, runs, say)
    return rows(turns, OURS, ()), turns


def _demo() -> Figures:
    with cli_lab(Side(OURS, ROOT)) as lab:
        seconds, receipt = lab.call(("demo", "--no-control", "--down", "--json"))
    yield from zip(FIRST, (*recovered_in(receipt), seconds), strict=True)


def up(runs: int, against: Path | None) -> tuple[Found, list[Side]]:
    """Measure `up` as a command, until the worker nodes and until all services are healthy; labs in turn."""
    compared = sides(against, stock=True)
    steps: dict[str, dict[str, Measure]] = {"up": {side.name: _up(side) for side in compared}}
    return by_turns(steps, runs, say), compared


def _up(side: Side) -> Measure:
    def measure() -> Figures:
        with cli_lab(side) as lab:
            whole = lab.up()
            if (alive := nodes_alive(lab.seen)) is not None:
                yield "up: every node alive", alive
            yield "up: every service healthy", whole

    return measure
