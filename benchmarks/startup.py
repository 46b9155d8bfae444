"""Waiting times of a user: for the command line, for the lab, for the first epoch of a job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.checkouts import OURS, Side, cli_lab, nodes_alive, recovered_in, sides
from benchmarks.compare import Figures, Found, Measure, Row, by_turns, rows
from benchmarks.measure import own_lab, say, timed
from lab.cluster.recipes import find_recipe
from lab.host.files import ROOT
from lab.lab import Lab
from lab.runtime.local.runtime import LocalRuntime

FIRST = ("fault to first new step", "fault to first new epoch", "the whole demo")
"""Figures of a demo."""


def cli(runs: int) -> list[Row]:
    """Measure `labctl --help` and `status` as whole processes, against an interpreter that does nothing."""
    nothing = [sys.executable, "-c", "pass"]

    def peer() -> float:
        return timed(lambda: subprocess.run(nothing, check=True))

    measured = []
    with cli_lab(Side(OURS, ROOT)) as lab:
        for what, words in (("--help", "--help"), ("status, no lab", "status"), ("status", "status")):
            if what == "status":
                lab.up()
            lab.call((words,))
            pairs = [(lab.call((words,))[0], peer()) for _ in range(runs)]
            ours, theirs = zip(*pairs, strict=True)
            measured.append(Row(f"labctl {what}", ours, "python -c pass", theirs))
    return measured


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


def submit(runs: int) -> list[Row]:
    """Measure submission to first reported epoch: labctl against `ray job submit` of the same script."""
    ours, peer = [], []
    with own_lab("bench-submit") as lab:
        runtime = lab.runtime
        assert isinstance(runtime, LocalRuntime)
        environment = {**os.environ, **runtime.client_environment()}
        folder = find_recipe("digits").folder
        ray = str(Path(sys.executable).parent / "ray")
        for number in range(runs + 1):  # the first pair warms caches and is not counted
            begin = time.time()
            mine = _first_epoch(lab, lab.submit_recipe("digits", {"epochs": "2"}).submission_id) - begin
            name = f"plain-{number}"
            begin = time.time()
            subprocess.run(
                [
                    *(ray, "job", "submit", "--no-wait", "--submission-id", name),
                    *("--working-dir", str(folder), "--", "python", "train.py", "--epochs", "2"),
                ],
                check=True,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            plain = _first_epoch(lab, name) - begin
            say(f"submit {number}/{runs}: labctl {mine:.1f} s, ray job submit {plain:.1f} s")
            if number:
                ours.append(mine)
                peer.append(plain)
    return [Row("submit to first epoch", tuple(ours), "ray job submit", tuple(peer))]


def _first_epoch(lab: Lab, job: str) -> float:
    """Wait for the job's end; return the time of its first reported epoch (seconds since 1970)."""
    ended = lab.jobs.wait(job, 300)
    run = lab.history(job).runs[-1]
    first = run.attempts[-1].first
    if ended.status != "SUCCEEDED" or first is None:
        raise SystemExit(f"job {job}: {ended.status}")
    return first.at
