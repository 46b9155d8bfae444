"""Lesson 4: the same training under Ray Train, with checkpoints in the object store."""

from __future__ import annotations

from lab.ext.course.lessons.catalogue.training import SUBMIT, learned, on_gpu_nodes, run_of, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, failed, passed
from lab.topology import Check

PART = "one-worker"


def checkpoint_every_epoch(evidence: Evidence) -> Check:
    """Ray Train registered a checkpoint of every planned epoch, and the store holds its file."""
    name = "a checkpoint of every epoch is in the store"
    run = run_of(evidence, PART)
    if run is None or run.plan is None or run.plan.epochs is None:
        return failed(name, "no run of Ray Train with a planned number of epochs", SUBMIT)
    stored = {
        checkpoint.progress
        for checkpoint in run.checkpoints
        if any(f"s3://ray/{key}".startswith(f"{checkpoint.uri}/") for key in evidence.store_objects)
    }
    missing = [epoch for epoch in range(1, int(run.plan.epochs) + 1) if epoch not in stored]
    detail = f"{len(stored)} of {run.plan.epochs:g}"
    if missing:
        return failed(
            name, f"{detail}; missing: {', '.join(map(str, missing))}", "let the job run to its end"
        )
    return passed(name, f"{detail}, in {run.checkpoints[-1].uri.rpartition('/')[0]}")


LESSON = Lesson(
    number=4,
    name="ray-train",
    title="Ray Train",
    notebook="04-ray-train.ipynb",
    minutes=20,
    checks=(
        succeeded(PART),
        on_gpu_nodes(PART, 1, "one rank, on a GPU node"),
        checkpoint_every_epoch,
        learned(PART),
    ),
    needs=("food11",),
)
