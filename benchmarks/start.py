"""Time from an actor to its first answer, and from `submit` to the first epoch: this lab against stock Ray.

Both labs are up; one is idle while the other is measured.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.compare import Figures, Found, LostError, Measure, Row, by_turns, rows
from benchmarks.measure import own_lab, say, spec, succeed
from lab.lab import Lab

OURS, STOCK = "this lab", "stock Ray"
NAMES = {OURS: "bench-lab", STOCK: "bench-stock"}

SCRIPTS = Path(__file__).parent / "scripts"
ACTORS = 2
"""Number of actors per job; the figure of the job is their median."""

RANKS = (1, 2)
EPOCHS = 2

FIGURES = {
    "start": "actor created to first method answered",
    "imports": "torch, Lightning and Ray Train imported in it",
    "both": "both together",
}

JOB_SECONDS = 300.0
QUIET_SECONDS, QUIET_PERCENT, LOOK_SECONDS = 90.0, 30.0, 3.0
"""Timeout for the machine to become quiet, the load of all cores that counts as quiet, the sample length."""

REST_SECONDS = 3.0
"""Pause before each measurement, in which the processes of the last one end."""


def run(runs: int) -> tuple[list[Row], Found]:
    """Measure the figures of both labs, in turn."""
    with contextlib.ExitStack() as stack:
        labs = {}
        for side, name in NAMES.items():
            say(f"starting {side}")
            labs[side] = stack.enter_context(own_lab(name, stock_ray=side == STOCK))
        settle(lambda: psutil.cpu_percent(LOOK_SECONDS), time.monotonic)

        def repair(side: str) -> None:
            lab = labs[side]
            for job in lab.jobs.list():
                if not job.final:
                    lab.jobs.stop(job.submission_id)
            lab.up(spec(NAMES[side], stock_ray=side == STOCK))

        steps: dict[str, dict[str, Measure]] = {"actors": {s: _actors(lab) for s, lab in labs.items()}}
        for ranks in RANKS:
            steps[f"digits, {said(ranks)}"] = {s: _training(lab, ranks) for s, lab in labs.items()}
        turns = by_turns(steps, runs, say, repair)
    return rows(turns, OURS, [STOCK]), turns


def said(ranks: int) -> str:
    """Format a number of ranks."""
    return f"{ranks} rank{'s' * (ranks > 1)}"


def settle(look: Callable[[], float], clock: Callable[[], float]) -> bool:
    """Wait until the machine is quiet, by the load of all cores in percent; return False on timeout."""
    end = clock() + QUIET_SECONDS
    while (busy := look()) > QUIET_PERCENT:
        if clock() > end:
            say(f"the machine is not quiet: {busy:.0f} % of its cores are busy")
            return False
    return True


def parse(log: str) -> dict[str, float]:
    """Return the medians of the output of scripts/actors.py. Raises LostError if a figure is missing."""
    seconds_of: dict[str, list[float]] = {}
    for line in log.splitlines():
        if not line.startswith("{"):
            continue
        with contextlib.suppress(ValueError):
            for name, seconds in json.loads(line).items():
                seconds_of.setdefault(str(name), []).append(float(seconds))
    if not all(name in seconds_of for name in FIGURES):
        raise LostError("the job printed no figures")
    return {name: statistics.median(seconds_of[name]) for name in FIGURES}


def _actors(lab: Lab) -> Measure:
    def measure() -> Figures:
        time.sleep(REST_SECONDS)
        job = lab.submit(command=["python", "actors.py", str(ACTORS)], working_dir=SCRIPTS).submission_id
        succeed(lab, job, JOB_SECONDS)
        for name, seconds in parse(lab.jobs.logs(job)).items():
            yield FIGURES[name], seconds

    return measure


def _training(lab: Lab, ranks: int) -> Measure:
    def measure() -> Figures:
        time.sleep(REST_SECONDS)
        asked = {"epochs": str(EPOCHS), "workers": str(ranks)}
        begin = time.time()
        job = lab.submit_recipe("digits", asked).submission_id
        succeed(lab, job, JOB_SECONDS)
        yield f"submit to first epoch, {said(ranks)}", first_epoch(lab, job) - begin

    return measure


def first_epoch(lab: Lab, job: str) -> float:
    """Return the time of a job's first epoch, in seconds since the epoch (1970). Raises LostError."""
    runs = lab.history(job).runs
    first = runs[-1].attempts[0].first if runs and runs[-1].attempts else None
    if first is None:
        raise LostError(f"job {job} reported no epoch")
    return first.at
