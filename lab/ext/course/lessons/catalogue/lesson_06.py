"""Lesson 6: three jobs that take half a GPU each, at once and one after the other."""

from __future__ import annotations

from collections import Counter

from lab.evidence.ledger import Run
from lab.ext.course.lessons.catalogue.training import attempt_of, run_of, span_of
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, check, holds, need

JOBS = 3
SHARE = 0.5
"""Share of a GPU for each job."""

AT_ONCE = tuple(f"at-once-{number}" for number in range(1, JOBS + 1))
IN_TURN = tuple(f"in-turn-{number}" for number in range(1, JOBS + 1))

TOLERANCE_SECONDS = 2.0
"""Largest difference between a recorded time and that of the list of jobs which the notebook has."""


@check("six jobs succeeded", "wait for it, or read its log: labctl jobs logs")
def all_succeeded(evidence: Evidence) -> str:
    jobs = [evidence.submitted(part) for part in (*AT_ONCE, *IN_TURN)]
    other = [f"{job.submission_id} is {job.status}" for job in jobs if job.status != "SUCCEEDED"]
    holds(not other, ", ".join(other))
    return f"{JOBS} at once, {JOBS} in turn"


@check("each asked for half a GPU", f"{SUBMIT}, with --gpus 0.5 --cpus 4")
def half_a_gpu_each(evidence: Evidence) -> str:
    plans = [run_of(evidence, part).plan for part in AT_ONCE]
    asked = [plan.resources_per_worker.get("GPU", 0) if plan else 0 for plan in plans]
    return holds(asked == [SHARE] * JOBS, f"GPU: {', '.join(f'{gpus:g}' for gpus in asked)}")


@check("packed two and one", "no other job may hold a GPU meanwhile; look at `labctl top`")
def packed_two_and_one(evidence: Evidence) -> str:
    """Two of the three jobs at once trained on one node, and one on the other."""
    nodes = [next(iter(attempt_of(evidence, part).nodes.values())) for part in AT_ONCE]
    places = Counter(map(evidence.service_of, nodes))
    detail = ", ".join(f"{service or 'unknown'}: {jobs}" for service, jobs in sorted(places.items()))
    return holds("" not in places and sorted(places.values()) == [1, 2], detail)


@check("at once, and in turn", "submit all three in one cell; wait for each of the others before the next")
def at_the_same_time(evidence: Evidence) -> str:
    """There was a moment at which all three trained, and none at which two of the others did."""
    spans = [_trained(run_of(evidence, part)) for part in AT_ONCE]
    together = min(end for _, end in spans) - max(begin for begin, _ in spans)
    holds(together > 0, "one of the three had ended before another one began")
    turns = _times(evidence, IN_TURN)
    apart = all(turns[i][1] <= turns[i + 1][0] for i in range(JOBS - 1))
    holds(apart, "the jobs in turn overlap")
    return f"all three trained together for {together:.0f} s"


@check("the ratio is right", "run the notebook's cell that compares them again")
def times_are_right(evidence: Evidence) -> str:
    """The notebook's two total times are those of the list of jobs, and so is their ratio."""
    real, recorded = {}, evidence.records.get("seconds") or {}
    for key, parts in (("at_once", AT_ONCE), ("in_turn", IN_TURN)):
        times = _times(evidence, parts)
        seconds = real[key] = max(end for _, end in times) - times[0][0]
        said = need(recorded.get(key), "no times were recorded")
        detail = f"{key}: recorded {said:.1f} s, the list of jobs says {seconds:.1f} s"
        holds(abs(said - seconds) <= TOLERANCE_SECONDS, detail)
    ratio = real["in_turn"] / real["at_once"]
    return f"in turn {real['in_turn']:.0f} s, at once {real['at_once']:.0f} s: {ratio:.2f} times as long"


def _trained(run: Run) -> tuple[float, float]:
    """Start of the training function, and time of the last report."""
    lack = "the ledger does not know when they trained"
    last, first = need(run.last, lack), run.attempts[0]
    return need(first.training_started_at or first.started_at, lack), last.at


def _times(evidence: Evidence, parts: tuple[str, ...]) -> list[tuple[float, float]]:
    """Start and end of the jobs of these parts, as the notebook has them, by start."""
    jobs = (need(evidence.in_notebook(part), "not every job was submitted") for part in parts)
    return sorted(map(span_of, jobs))


LESSON = Lesson(
    number=6,
    name="fractional-gpus",
    title="Fractional GPUs",
    minutes=15,
    checks=(all_succeeded, half_a_gpu_each, packed_two_and_one, at_the_same_time, times_are_right),
    needs=("food11",),
    seconds=1800.0,
)
