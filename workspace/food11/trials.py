"""Output of tune_ray.py: a line for every event of a trial, and a summary at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Set
from typing import Any

import ray
from ray import tune

RELEASE_SECONDS = 20.0
"""Timeout for Ray to release the resources of stopped trials at the end: about a second per trial."""


class Trials(tune.Callback):
    """Prints a table to the job's log, with a line for each event of Ray Tune."""

    def __init__(self, epochs: int, tuned: tuple[str, ...]) -> None:
        """Print the table head. `epochs`: of a full trial; `tuned`: settings that differ between trials."""
        self.epochs, self.tuned = epochs, tuned
        self.numbers: dict[str, int] = {}
        self.reached: dict[str, int] = {}
        self.failed: set[str] = set()
        columns = "".join(f"  {name:>10}" for name in tuned)
        print(f"trial{columns}  {'epoch':>7}  val_accuracy  status", flush=True)

    def line(self, trial: Any, status: str, result: Mapping[str, Any] | None = None) -> None:
        number = self.numbers.setdefault(trial.trial_id, len(self.numbers) + 1)
        values = "".join(f"  {shown(trial.config[name]):>10}" for name in self.tuned)
        epoch = f"{result['epoch']}/{self.epochs}" if result else ""
        accuracy = f"{result['val_accuracy']:.4f}" if result else ""
        print(f"{number:>5}{values}  {epoch:>7}  {accuracy:>12}  {status}", flush=True)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        again = trial.trial_id in self.numbers
        self.line(trial, "started again, continues after its newest checkpoint" if again else "started")

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.reached[trial.trial_id] = result["epoch"]
        self.line(trial, "running", result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        early = self.reached.get(trial.trial_id, 0) < self.epochs
        self.line(trial, "stopped early" if early else "trained to the end")

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.line(trial, "lost a node")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.failed.add(trial.trial_id)
        self.line(trial, "failed")

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Wait until the GPUs of stopped trials are free: Ray releases them only while the job runs."""
        from ray.util.state import list_placement_groups

        job, deadline = ray.get_runtime_context().get_job_id(), time.monotonic() + RELEASE_SECONDS
        try:
            while time.monotonic() < deadline and any(
                group.creator_job_id == job and group.state != "REMOVED"
                for group in list_placement_groups(limit=1000)
            ):
                time.sleep(0.5)
        except Exception as error:
            print(f"the resources of stopped trials could not be checked: {error}", flush=True)


def summary(results: Any, epochs: int, tuned: tuple[str, ...], lost: Set[str]) -> str:
    """Summarise Tune's results: the compute that early stopping saved, and the best trial.

    `lost` are the ids of the trials that failed. These are only counted: they were not stopped early.
    Exits if every trial failed.
    """
    good = [result for result in results if result.metrics and result.metrics["trial_id"] not in lost]
    failed = len(list(results)) - len(good)
    if not good:
        sys.exit(f"failed: {failed}. No trial is left: look for the first error in the job's log")
    reached = [int(result.metrics.get("epoch", 0)) for result in good]
    early, trained, planned = sum(n < epochs for n in reached), sum(reached), epochs * len(reached)
    best = max(good, key=lambda result: result.metrics.get("val_accuracy", 0.0))
    settings = ", ".join(f"{name} {shown(best.config[name])}" for name in tuned)
    return (
        f"trials: {len(reached)}, stopped early: {early}\n"
        f"epochs: {trained} of the {planned} that all trials to the end would have taken,"
        f" compute saved: {100 * (1 - trained / planned):.0f} %\n"
        f"failed: {failed}\n"
        f"best: {settings}, val_accuracy {best.metrics['val_accuracy']:.4f}, epoch {best.metrics['epoch']}"
    )


def shown(value: Any) -> str:
    """Format a setting in a few characters."""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
