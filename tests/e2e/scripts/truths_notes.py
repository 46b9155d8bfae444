"""What the scripts of truths.py write down for no judge, and what they wait for."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray.train

TRUTHS = Path(os.environ.get("TRUTHS", "/nowhere"))
"""Folder of this job's notes."""

START = TRUTHS / "start"
"""No rank trains before this file is there: jobs that are to meet one fault train at the same time."""

START_SECONDS = 600.0
EPOCH_SECONDS = 0.25

sys.path.extend(filter(None, os.environ.get("TRUTHS_LIBRARIES", "").split(os.pathsep)))


def run_name() -> str:
    """Name of the run that this rank is a part of."""
    return str(ray.train.get_context().get_experiment_name())


def tell(kind: str, **values: Any) -> None:
    """Write a line of truth."""
    line = {"kind": kind, "run": run_name(), "at": time.time(), **values}
    with (TRUTHS / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def begin(rank: int, state: int, says: int, **values: Any) -> None:
    """Write down how many epochs are in what a rank trains on, and the one that it says it does first."""
    tell("began", rank=rank, state=state, says=says, **values)
    deadline = time.monotonic() + START_SECONDS
    while not START.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{START} is not there after {START_SECONDS:g} s")
        time.sleep(0.05)


def last_said() -> int:
    """The last epoch that any rank of this run said it had done, from files of the script's own."""
    lines = [json.loads(line) for file in TRUTHS.glob("*.jsonl") for line in file.read_text().splitlines()]
    mine = [line for line in lines if line["kind"] == "reported" and line["run"] == run_name()]
    return max((line["says"] for line in mine), default=0)
