"""How long a person waits: for the command line, for the lab, for the first epoch of a job."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, own_lab, say, spec, timed
from lab.lab import Lab
from lab.runtime.local.runtime import LocalRuntime
from lab.runtime.local.services import ROOT
from lab.workloads import find_workload


def cli(runs: int) -> list[Row]:
    """`labctl --help` as a whole process, against an interpreter that does nothing."""
    command = [sys.executable, str(ROOT / "labctl.py"), "--help"]
    nothing = [sys.executable, "-c", "pass"]

    def call(argv: list[str]) -> float:
        return timed(lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL))

    call(command)
    ours, peer = [], []
    for _ in range(runs):
        ours.append(call(command))
        peer.append(call(nothing))
    return [Row("labctl --help", tuple(ours), "python -c pass", tuple(peer))]


def up(runs: int) -> list[Row]:
    """`up` until every service is healthy, and until both workers are alive in Ray."""
    whole, workers = [], []
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="raylab-bench-") as folder:
            lab = Lab(LocalRuntime("bench-up", Path(folder) / "bench-up"))
            alive: list[float] = []

            def note(progress: object, alive: list[float] = alive) -> None:
                state = getattr(progress, "state", None)
                if (
                    getattr(progress, "service", "") == "ray-worker-1"
                    and state is not None
                    and state.value == "healthy"
                ):
                    alive.append(getattr(progress, "seconds", 0.0))

            whole.append(timed(partial(lab.up, spec("bench-up"), note)))
            workers.append(alive[0])
            say(f"up {number + 1}/{runs}: {whole[-1]:.1f} s")
            lab.down(volumes=True)
    return [
        Row("up: both workers alive in Ray", tuple(workers)),
        Row("up: every service healthy", tuple(whole)),
    ]


def submit(runs: int) -> list[Row]:
    """Submission to first reported epoch: labctl's way against `ray job submit` of the same script."""
    ours, peer = [], []
    with own_lab("bench-submit") as lab:
        environment = {**os.environ, **lab.runtime.client_environment()}
        folder = find_workload("digits").folder
        ray = str(Path(sys.executable).parent / "ray")
        for number in range(runs + 1):  # the first pair warms caches and is not counted
            begin = time.time()
            mine = _first_epoch(lab, lab.submit_workload("digits", {"epochs": "2"}).submission_id) - begin
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
    """When the first epoch of `job` was reported (seconds since the epoch); waits for the job's end."""
    ended = lab.jobs.wait(job, 300)
    run = lab.history(job).runs[-1]
    first = run.attempts[-1].first
    if ended.status != "SUCCEEDED" or first is None:
        raise SystemExit(f"job {job}: {ended.status}")
    return first.at
