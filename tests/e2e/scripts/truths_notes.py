"""What the scripts of truths.py write down for no judge, what they wait for, and a run of Ray Train."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback

TRUTHS = Path(os.environ.get("TRUTHS", "/nowhere"))
"""Folder of this job's notes."""

START = TRUTHS / "start"
"""No rank trains before this file is there: jobs that are to meet one fault train at the same time."""

STRUCK, LAST_EPOCH = TRUTHS / "struck", 14
"""No rank goes on after this epoch before this file is there: the fault comes first, on any machine."""

WAIT_SECONDS = 600.0
EPOCH_SECONDS = 0.25

sys.path.extend(filter(None, os.environ.get("TRUTHS_LIBRARIES", "").split(os.pathsep)))


def run_name() -> str:
    """Name of the run that this rank is a part of."""
    return str(ray.train.get_context().get_experiment_name())


def tell(kind: str, run: str = "", **values: Any) -> None:
    """Write a line of truth; `run` is that of this rank, unless it is named.

    One that has reported LAST_EPOCH waits for the fault.
    """
    line = {"kind": kind, "run": run or run_name(), "at": time.time(), **values}
    with (TRUTHS / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    if kind == "reported" and line["says"] >= LAST_EPOCH:
        wait_for(STRUCK)


def wait_for(file: Path) -> None:
    """Wait until the test has made this file. Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file} is not there after {WAIT_SECONDS:g} s")
        time.sleep(0.05)


def lines(kind: str) -> list[dict[str, Any]]:
    """The lines of this kind that any rank of this run has written, in no order."""
    text = "".join(file.read_text() for file in TRUTHS.glob("*.jsonl"))
    return [
        line
        for line in map(json.loads, text.splitlines())
        if line["kind"] == kind and line["run"] == run_name()
    ]


def begin(rank: int, state: int, says: int, **values: Any) -> None:
    """Write down how many epochs are in what a rank trains on, and the one that it says it does first."""
    tell("began", rank=rank, state=state, says=says, **values)
    wait_for(START)


def last_said() -> int:
    """The last epoch that any rank of this run said it had done, from files of the script's own."""
    return max((line["says"] for line in lines("reported")), default=0)


class Notes:
    """The truth of one rank by digests: of what it trains on at each report, and of what it begins with.

    How many epochs are in the latter is then known: as many as were reported with the same digest.
    """

    def __init__(self, *parts: Any) -> None:
        """`parts` is all that has to be the same after a resume, as `digest` takes it."""
        self.parts = parts
        self.rank = ray.train.get_context().get_world_rank()

    def begin(self, says: int) -> None:
        """Write down what it begins with, right before the first epoch, which is the one that it `says`."""
        mine = digest(self.parts)
        known = [
            line["says"] for line in lines("kept") if (line["rank"], line["digest"]) == (self.rank, mine)
        ]
        begin(self.rank, max(known, default=0), says)

    def keep(self, says: int) -> None:
        """Write down what is handed over with the report of this epoch, right before it."""
        time.sleep(EPOCH_SECONDS)
        tell("kept", rank=self.rank, says=says, digest=digest(self.parts))

    def reported(self, says: int) -> None:
        """Write down that this epoch was reported."""
        if self.rank == 0:
            tell("reported", says=says, state=says)


class Commits(UserCallback):
    """Writes down which checkpoints are there, where they are uploaded meanwhile."""

    def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
        if checkpoint:
            tell("committed", run=run_context.run_config.name, says=metrics[0]["epoch"])


def digest(value: Any) -> str:
    """Digest of tensors, numbers and text, in folds of lists and mappings; or of things with a `state_dict`,
    and of what functions return.

    Of a tensor that is sharded it is that of this rank's part.
    """
    if hasattr(value, "state_dict"):
        value = value.state_dict()
    if callable(value):
        value = value()
    if isinstance(value, Mapping):
        value = sorted(((str(key), part) for key, part in value.items()), key=lambda pair: pair[0])
    if isinstance(value, (list, tuple)):
        data = "".join(map(digest, value)).encode()
    elif hasattr(value, "detach"):
        part = getattr(value, "_local_tensor", value)
        data = part.detach().cpu().double().numpy().tobytes()
    else:
        data = value if isinstance(value, bytes) else repr(value).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def rank() -> int:
    """Rank of this process."""
    return int(ray.train.get_context().get_world_rank())


def run(
    train: Callable[[dict[str, Any]], Any],
    config: Mapping[str, Any],
    trainer: Any = None,
    *,
    workers: int | tuple[int, int] = 1,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Train with Ray Train, as TorchTrainer does or by another trainer; `settings` are of its RunConfig,
    `more` of its trainer."""
    if trainer is None:
        from ray.train.torch import TorchTrainer

        trainer = TorchTrainer
    usual = {"storage_path": "s3://ray", "failure_config": FailureConfig(max_failures=3)}
    return trainer(
        train,
        train_loop_config=dict(config),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(**{**usual, **(settings or {})}),
        **more,
    ).fit()


def of_this_job(name: str) -> str:
    """A name that no other job has."""
    return f"{name}-{TRUTHS.parent.name}-{TRUTHS.name}"


def search(trial: Any, space: dict[str, Any], scheduler: Any = None) -> None:
    """Run trials, which need next to no room of their own; one that is lost is begun again."""
    from ray import tune

    failures = tune.FailureConfig(max_failures=3)
    tune.Tuner(
        tune.with_resources(trial, {"CPU": 0.01}),
        param_space=space,
        tune_config=tune.TuneConfig(scheduler=scheduler),
        run_config=tune.RunConfig(storage_path=str(TRUTHS / "tune"), failure_config=failures),
    ).fit()
