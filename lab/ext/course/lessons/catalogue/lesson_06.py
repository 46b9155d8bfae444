"""Lesson 6: three jobs that take half a GPU each, at once and one after the other."""

from __future__ import annotations

from collections import Counter

from lab.evidence.ledger import Run
from lab.ext.course.lessons.catalogue.training import SUBMIT, run_of
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed, passed
from lab.topology import Check

JOBS = 3
SHARE = 0.5
"""Share of a GPU for each job."""

AT_ONCE = tuple(f"at-once-{number}" for number in range(1, JOBS + 1))
IN_TURN = tuple(f"in-turn-{number}" for number in range(1, JOBS + 1))

TOLERANCE_SECONDS = 2.0
"""Largest difference between a recorded time and that of the list of jobs which the notebook has."""


def all_succeeded(evidence: Evidence) -> Check:
    """Three jobs at once and three in turn, and each of them succeeded."""
    name = "six jobs succeeded"
    jobs = {part: evidence.job(part) for part in (*AT_ONCE, *IN_TURN)}
    lacking = [part for part, job in jobs.items() if job is None]
    if lacking:
        return failed(name, f"there is no job lesson-06-{lacking[0]}-...", SUBMIT)
    other = [
        f"{job.submission_id} is {job.status}" for job in jobs.values() if job and job.status != "SUCCEEDED"
    ]
    if other:
        return failed(name, ", ".join(other), "wait for it, or read its log: labctl jobs logs")
    return passed(name, f"{JOBS} at once, {JOBS} in turn")


def half_a_gpu_each(evidence: Evidence) -> Check:
    """Each of the three jobs asked for half a GPU."""
    name = "each asked for half a GPU"
    asked = [_asked(run_of(evidence, part)) for part in AT_ONCE]
    detail = ", ".join("nothing known" if gpus is None else f"{gpus:g}" for gpus in asked)
    return answer(asked == [SHARE] * JOBS, name, f"GPU: {detail}", f"{SUBMIT}, with --gpus 0.5 --cpus 4")


def packed_two_and_one(evidence: Evidence) -> Check:
    """Two of the three jobs at once trained on one node, and one on the other."""
    name = "packed two and one"
    places = Counter(_service(evidence, run_of(evidence, part)) for part in AT_ONCE)
    detail = ", ".join(f"{service or 'unknown'}: {jobs}" for service, jobs in sorted(places.items()))
    packed = "" not in places and sorted(places.values()) == [1, 2]
    return answer(packed, name, detail, "no other job may hold a GPU meanwhile; look at `labctl top`")


def at_the_same_time(evidence: Evidence) -> Check:
    """There was a moment at which all three trained, and none at which two of the others did."""
    name = "at once, and in turn"
    spans = [_span(run_of(evidence, part)) for part in AT_ONCE]
    known = [span for span in spans if span is not None]
    if len(known) < JOBS:
        return failed(name, "the ledger does not know when they trained", SUBMIT)
    together = min(end for _, end in known) - max(begin for begin, _ in known)
    if together <= 0:
        return failed(
            name, "one of the three had ended before another one began", "submit all three in one cell"
        )
    turns = _times(evidence, IN_TURN)
    if len(turns) < JOBS or any(turns[i][1] > turns[i + 1][0] for i in range(JOBS - 1)):
        return failed(name, "the jobs in turn overlap, or one is missing", "wait for each before the next")
    return passed(name, f"all three trained together for {together:.0f} s")


def times_are_right(evidence: Evidence) -> Check:
    """The notebook's two total times are those of the list of jobs, and so is their ratio."""
    name = "the ratio is right"
    real = {"at_once": _total(evidence, AT_ONCE), "in_turn": _total(evidence, IN_TURN)}
    recorded = evidence.records.get("seconds")
    if not isinstance(recorded, dict) or any(not isinstance(recorded.get(key), (int, float)) for key in real):
        return failed(name, "no times were recorded", "run the notebook's cell that compares them")
    for key, seconds in real.items():
        if seconds is None:
            return failed(name, "not every job has ended", "wait for the jobs")
        if abs(recorded[key] - seconds) > TOLERANCE_SECONDS:
            detail = f"{key}: recorded {recorded[key]:.1f} s, the list of jobs says {seconds:.1f} s"
            return failed(name, detail, "run the notebook's cell that compares them again")
    ratio = (real["in_turn"] or 0.0) / (real["at_once"] or 1.0)
    detail = f"in turn {real['in_turn']:.0f} s, at once {real['at_once']:.0f} s: {ratio:.2f} times as long"
    return passed(name, detail)


def _asked(run: Run | None) -> float | None:
    return run.plan.resources_per_worker.get("GPU") if run and run.plan else None


def _service(evidence: Evidence, run: Run | None) -> str:
    """The service on which its one rank trained."""
    nodes = [node for attempt in (run.attempts if run else ()) for node in attempt.nodes.values()]
    return evidence.service_of(nodes[0]) if nodes else ""


def _span(run: Run | None) -> tuple[float, float] | None:
    """Start of the training function, and time of the last report."""
    if run is None or not run.attempts or run.last is None:
        return None
    begin = run.attempts[0].training_started_at or run.attempts[0].started_at
    return None if begin is None else (begin, run.last.at)


def _times(evidence: Evidence, parts: tuple[str, ...]) -> list[tuple[float, float]]:
    """Start and end of the jobs of these parts that have ended, by start."""
    jobs = [job for part in parts if (job := evidence.in_notebook(part)) is not None]
    return sorted((job.started_at, job.ended_at) for job in jobs if job.started_at and job.ended_at)


def _total(evidence: Evidence, parts: tuple[str, ...]) -> float | None:
    """Seconds from the first job's start to the last one's end; None unless all have ended."""
    times = _times(evidence, parts)
    return max(end for _, end in times) - times[0][0] if len(times) == len(parts) else None


LESSON = Lesson(
    number=6,
    name="fractional-gpus",
    title="Fractional GPUs",
    notebook="06-fractional-gpus.ipynb",
    minutes=15,
    checks=(all_succeeded, half_a_gpu_each, packed_two_and_one, at_the_same_time, times_are_right),
    needs=("food11",),
    seconds=1800.0,
)
