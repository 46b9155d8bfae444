"""Lesson 5: two ranks on two nodes that train one network together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.evidence.ledger import number
from lab.ext.course.lessons.catalogue.training import SUBMIT, attempt_of, on_gpu_nodes, run_of, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed, passed
from lab.topology import Check

ONE, TWO = "one-worker", "two-workers"
RECORD = "seconds_per_epoch"


def both_reported(evidence: Evidence) -> Check:
    """Rank 0 and rank 1 both reported the last planned epoch."""
    name = "both ranks trained to the end"
    run, attempt = run_of(evidence, TWO), attempt_of(evidence, TWO)
    if run is None or attempt is None or run.plan is None or run.plan.epochs is None:
        return failed(name, "no run with two ranks", SUBMIT)
    reached = {rank: reports[-1].progress or 0 for rank, reports in attempt.by_rank.items()}
    detail = (
        ", ".join(f"rank {rank}: epoch {epoch:g}" for rank, epoch in reached.items()) or "nobody reported"
    )
    whole = reached == {0: run.plan.epochs, 1: run.plan.epochs}
    return answer(whole, name, f"{detail}; planned: {run.plan.epochs:g}", "let the job run to its end")


def one_network(evidence: Evidence) -> Check:
    """The weights of both ranks are equal, bit for bit: gradients were averaged after every step."""
    name = "both ranks hold the same network"
    attempt = attempt_of(evidence, TWO)
    hashes = {
        rank: str(reports[-1].metrics.get("weights_sha256"))
        for rank, reports in (attempt.by_rank.items() if attempt else ())
    }
    if set(hashes) != {0, 1} or not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes.values()):
        return failed(name, "not every rank reported the SHA-256 of its weights", SUBMIT)
    detail = ", ".join(f"rank {rank}: {digest[:12]}" for rank, digest in hashes.items())
    if hashes[0] != hashes[1]:
        return failed(name, f"{detail}: two different networks", "keep RayDDPStrategy in the Trainer")
    return passed(name, detail)


def compared(evidence: Evidence) -> Check:
    """The seconds per epoch that the notebook measured fit the times of the jobs."""
    name = "the time per epoch was compared"
    record = evidence.records.get(RECORD)
    measured = {k: number(v) for k, v in record.items()} if isinstance(record, Mapping) else {}
    one, two = measured.get("one"), measured.get("two")
    if one is None or two is None:
        return failed(name, "nothing was measured", "run the notebook's cell that compares")
    for part, seconds in ((ONE, one), (TWO, two)):
        job, run = evidence.job(part), run_of(evidence, part)
        if job is None or run is None or run.plan is None or job.ended_at is None or job.started_at is None:
            return failed(name, f"there is no training of {part}", SUBMIT)
        took, epochs = job.ended_at - job.started_at, run.plan.epochs or 1
        if not 0 < seconds * epochs < took:
            detail = f"{part}: {seconds:g} s per epoch, but {epochs:g} epochs and all else took {took:.0f} s"
            return failed(name, detail, "run the notebook's cell that compares")
    return passed(name, f"one worker {one:.2f} s, two workers {two:.2f} s: {one / two:.2f} times as fast")


LESSON = Lesson(
    number=5,
    name="two-workers",
    title="Two workers",
    notebook="05-two-workers.ipynb",
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
