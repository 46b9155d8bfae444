"""What a user waits for, and its memory: a new lab beside one of stock Ray, and the first recovery."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from dataclasses import replace

from benchmarks.cli_lab import CliLab, cli_lab, nodes_alive, recovered_in
from benchmarks.compare import Figures, Found, LostError, Measure, Row, by_turns, rows
from benchmarks.measure import OURS, SCRIPTS, STOCK, say, succeed
from benchmarks.memory import megabytes
from lab.lab import Lab

ACTORS = 2
"""Number of actors of the job; its figures are their medians."""

ACTOR_FIGURES = {
    "start": "actor created to first method answered",
    "imports": "torch, Lightning and Ray Train imported in it",
    "both": "both together",
}
MEMORY = "memory"
"""The beginning of figures in megabytes."""

SETTLE_SECONDS = 30.0
"""Time for a new lab to settle."""

CHECKPOINTS, DEADLINE_SECONDS, POLL_SECONDS = 3, 300.0, 2.0
"""Number of checkpoints before a training is measured, the timeout of a job, and the poll interval."""

FIRST = ("fault to first new step", "fault to first new epoch", "the whole demo")
"""Figures of a demo."""


def demos(runs: int) -> tuple[list[Row], Found]:
    """Measure the first recovery of a lab, right after its `up`: `labctl demo`, each time in a new lab."""
    turns = by_turns("demo", {OURS: _demo}, runs, say)
    return rows(turns, OURS), turns


def _demo() -> Figures:
    with cli_lab() as lab:
        seconds, receipt = lab.call(("demo", "--no-control", "--down", "--json"))
    yield from zip(FIRST, (*recovered_in(receipt), seconds), strict=True)


def up(runs: int) -> tuple[list[Row], Found]:
    """Measure new labs in turn: `up` as a command, actors, memory at rest and while two ranks train.

    One lab is up at a time: pages that two labs share would count half in each.
    """
    turns = by_turns("up", {OURS: _up(), STOCK: _up("--stock-ray")}, runs, say)
    compared = rows(turns, OURS, STOCK)
    return [replace(row, unit="MB") if row.what.startswith(MEMORY) else row for row in compared], turns


def _up(*options: str) -> Measure:
    def measure() -> Figures:
        with cli_lab(*options) as lab:
            whole, output = lab.up()
            if (alive := nodes_alive(output)) is not None:
                yield "up: every node alive", alive
            yield "up: every service healthy", whole
            time.sleep(SETTLE_SECONDS)
            yield f"{MEMORY} at rest", megabytes(lab)
            for name, seconds in _actors(lab.inside).items():
                yield ACTOR_FIGURES[name], seconds
            _train(lab)
            yield f"{MEMORY}, two ranks training", megabytes(lab)

    return measure


def _train(lab: CliLab) -> None:
    """Begin a training, and wait until it has saved some checkpoints. Raises LostError."""
    job, end = lab.submit("digits", {"epochs": "10000", "workers": "2"}), time.monotonic() + DEADLINE_SECONDS
    while len(lab.call(("jobs", "checkpoints", job, "--json"))[1]["checkpoints"]) < CHECKPOINTS:
        if time.monotonic() > end:
            raise LostError(f"job {job} has not saved {CHECKPOINTS} checkpoints after {DEADLINE_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


def _actors(lab: Lab) -> dict[str, float]:
    job = lab.submit(command=["python", "actors.py", str(ACTORS)], working_dir=SCRIPTS).submission_id
    succeed(lab, job, DEADLINE_SECONDS)
    return actor_figures(lab.jobs.logs(job))


def actor_figures(log: str) -> dict[str, float]:
    """The medians of the output of scripts/actors.py. Raises LostError if a figure is missing."""
    seconds_of: dict[str, list[float]] = {}
    for line in log.splitlines():
        with contextlib.suppress(ValueError, AttributeError):
            for name, seconds in json.loads(line).items():
                seconds_of.setdefault(str(name), []).append(float(seconds))
    if not all(name in seconds_of for name in ACTOR_FIGURES):
        raise LostError("the job printed no figures")
    return {name: statistics.median(seconds_of[name]) for name in ACTOR_FIGURES}
