"""Lesson 5: two ranks on two nodes that train one network together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.evidence.ledger import number
from lab.ext.course.lessons.catalogue.training import (
    attempt_of,
    epochs_of,
    on_gpu_nodes,
    span_of,
    succeeded,
)
from lab.ext.course.lessons.model import Evidence, Lesson, check, holds, need

ONE, TWO = "one-worker", "two-workers"
RECORD = "seconds_per_epoch"


@check("both ranks trained to the end", "let the job run to its end")
def both_reported(evidence: Evidence) -> str:
    """Rank 0 and rank 1 both reported the last planned epoch."""
    epochs = epochs_of(evidence, TWO)
    reached = {rank: reports[-1].progress or 0 for rank, reports in attempt_of(evidence, TWO).by_rank.items()}
    ranks = ", ".join(f"rank {rank}: epoch {epoch:g}" for rank, epoch in reached.items())
    return holds(reached == {0: epochs, 1: epochs}, f"{ranks or 'nobody reported'}; planned: {epochs:g}")


@check("both ranks hold the same network", "keep RayDDPStrategy in the Trainer")
def one_network(evidence: Evidence) -> str:
    """The weights of both ranks are equal, bit for bit: gradients were averaged after every step."""
    ranks = attempt_of(evidence, TWO).by_rank.items()
    hashes = {rank: str(reports[-1].metrics.get("weights_sha256")) for rank, reports in ranks}
    whole = set(hashes) == {0, 1} and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes.values())
    holds(whole, "not every rank reported the SHA-256 of its weights")
    detail = ", ".join(f"rank {rank}: {digest[:12]}" for rank, digest in hashes.items())
    holds(hashes[0] == hashes[1], f"{detail}: two different networks")
    return detail


@check("the time per epoch was compared", "run the notebook's cell that compares")
def compared(evidence: Evidence) -> str:
    """The seconds per epoch that the notebook measured fit the times of the jobs."""
    record = evidence.records.get(RECORD)
    measured = record if isinstance(record, Mapping) else {}
    one, two = (need(number(measured.get(key)), "nothing was measured") for key in ("one", "two"))
    for part, seconds in ((ONE, one), (TWO, two)):
        begin, end = span_of(evidence.submitted(part))
        epochs, took = epochs_of(evidence, part), end - begin
        detail = f"{part}: {seconds:g} s per epoch, but {epochs:g} epochs and all else took {took:.0f} s"
        holds(0 < seconds * epochs < took, detail)
    return f"one worker {one:.2f} s, two workers {two:.2f} s: {one / two:.2f} times as fast"


LESSON = Lesson(
    number=5,
    name="two-workers",
    title="Two workers",
    minutes=20,
    checks=(
        succeeded(ONE, "the job with one worker succeeded"),
        succeeded(TWO, "the job with two workers succeeded"),
        on_gpu_nodes(TWO, 2, "two ranks, each on a node of its own"),
        both_reported,
        one_network,
        compared,
    ),
    needs=("food11",),
)
