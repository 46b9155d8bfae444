"""Cost of the recipe `llm`'s asynchronous checkpoints: one every ten steps against none, in one training."""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare import LostError, Row
from benchmarks.measure import SCRIPTS, own_lab, say
from lab.host.files import ROOT

RECIPE = ROOT / "workspace" / "llm"
SCRIPT = SCRIPTS / "checkpoints.py"

TURNS_PER_RUN = 10
RANKS = (1, 2)
SIZES = ("0.1m", "0.8m", "5m")
"""Those of the recipe that a CPU is for."""
JOB_SECONDS = 3600.0


def run(runs: int, size: str) -> list[Row]:
    """Measure a model of `size` with one rank and with two, `runs` times ten pairs of turns of ten steps."""
    measured: list[Row] = []
    with own_lab("bench-checkpoints") as lab, tempfile.TemporaryDirectory(prefix="raylab-bench-") as folder:
        for file in (*RECIPE.glob("*.py"), *RECIPE.glob("*.json"), SCRIPT):
            shutil.copy(file, Path(folder) / ("turns.py" if file == SCRIPT else file.name))
        for ranks in RANKS:
            say(f"training on {ranks} rank(s)")
            command = ["python", "turns.py", "--megabytes", "1", "--gpus", "0", "--size", size]
            command += ["--workers", str(ranks), "--turns", str(TURNS_PER_RUN * runs)]
            job = lab.submit(command=command, working_dir=Path(folder)).submission_id
            ended = lab.jobs.wait(job, JOB_SECONDS)
            try:
                measured += rows(lab.jobs.logs(job), ranks)
            except LostError as error:
                why = ended.message.strip()[-200:]
                say(f"{ranks} rank(s): lost: {error}: job {job} {ended.status}: {why}")
    return measured


def rows(log: str, ranks: int) -> list[Row]:
    """The figures in the output of scripts/checkpoints.py. Raises LostError where there are none."""
    for line in log.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            read = json.loads(line)
            ours, peer = ([1000 * took for took in read[side]] for side in ("with", "without"))
            return _rows(ours, peer, ranks)
    raise LostError("the job printed no figures")


def _rows(ours: Sequence[float], peer: Sequence[float], ranks: int) -> list[Row]:
    """Milliseconds of ten steps on both sides, and the cost in percent: of each pair and of all turns.

    The standard error is that of the pairs' mean: their standard deviation by the root of their number.
    """
    what = f"ten steps with a checkpoint, {ranks} rank(s)"
    pairs = [theirs / mine for mine, theirs in zip(ours, peer, strict=True)]
    percents, whole = tuple(100 * (1 / pair - 1) for pair in pairs), 100 * (sum(ours) / sum(peer) - 1)
    error = statistics.stdev(percents) / len(percents) ** 0.5
    return [
        Row(what, tuple(ours), "none", tuple(peer), tuple(pairs), "ms"),
        Row(f"cost, pair by pair, {ranks} rank(s)", percents, unit="%"),
        Row(f"cost, all turns together, {ranks} rank(s)", (whole,), unit="%"),
        Row(f"its standard error, {ranks} rank(s)", (error,), unit="%"),
    ]
