"""Lesson 4: the same training under Ray Train, with checkpoints in the object store."""

from __future__ import annotations

from lab.ext.course.lessons.catalogue.training import epochs_of, learned, on_gpu_nodes, run_of, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, check, holds

PART = "one-worker"


@check("a checkpoint of every epoch is in the store", "let the job run to its end")
def checkpoint_every_epoch(evidence: Evidence) -> str:
    """Ray Train registered a checkpoint of every planned epoch, and the store holds its file."""
    run, epochs = run_of(evidence, PART), epochs_of(evidence, PART)
    stored = {
        checkpoint.progress
        for checkpoint in run.checkpoints
        if any(f"s3://ray/{key}".startswith(f"{checkpoint.uri}/") for key in evidence.store_objects)
    }
    missing = [str(epoch) for epoch in range(1, int(epochs) + 1) if epoch not in stored]
    have = f"{len(stored)} of {epochs:g}"
    holds(not missing, f"{have}; missing: {', '.join(missing)}")
    return f"{have}, in {run.checkpoints[-1].uri.rpartition('/')[0]}"


LESSON = Lesson(
    number=4,
    name="ray-train",
    title="Ray Train",
    minutes=20,
    checks=(
        succeeded(PART),
        on_gpu_nodes(PART, 1, "one rank, on a GPU node"),
        checkpoint_every_epoch,
        learned(PART),
    ),
    needs=("food11",),
)
