"""Work that an attempt did again: in steps of its optimizer where these were counted, else in reports."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import inf

from lab.api.receipt import LostWork
from lab.evidence.ledger import Number, RunAttempt, began, in_steps
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.expected import Expected

PACE_REPORTS = 2
"""Reports of an attempt from which its pace is known."""


def lost(case: Case) -> Number | None:
    """Return the most work that an attempt did again, in reports; None where it is not known of one."""
    if case.survival is not None and not case.after:
        return None if case.survival.repeated else 0
    return max(_each_again(case), default=None)


def _each_again(case: Case) -> list[Number]:
    """Return the work that each attempt did again, from the one that took over; none if one is not known."""
    if case.hit is None or case.new is None or case.new.first is None:
        return []
    trained = [a for a in case.resumed if a.first]
    again = [_again(case, before, attempt) for before, attempt in pairwise((case.hit, *trained))]
    known = [reports for reports in again if reports is not None]
    return known if len(known) == len(again) else []


def _again(case: Case, before: RunAttempt, attempt: RunAttempt) -> Number | None:
    """Return the work that an attempt did again of the one before it, in reports; None if it is not known."""
    first, right = attempt.first, case.newest_for(attempt)
    if case.run is None or first is None or first.progress is None:
        return None
    reached = [before.furthest, right.progress if right else None]
    last = max((p for p in reached if p is not None), default=None)
    step = began(case.run, attempt)
    done = first.progress - case.run.stride if step is None else step - 1
    return None if last is None else _in_reports(case, max(0, last - done))


def unseen(case: Case) -> Number | None:
    """Return the most work that the attempt that was hit may have reported, and nobody knows of.

    Where its controller is gone, a rank's last reports may be missing without a sign. The unit is that of
    `lost_work`. None where it was silent for longer than a report takes, and its own pace is not known.
    """
    hit = case.hit
    if case.run is None or hit is None or case.survival:
        return 0
    if hit.taken_up is not None and not uploads_meanwhile(case):
        # The last report of a rank that lacks some may not have been taken up.
        return _in_unit(case, 1 if len(hit.reports) < hit.taken_up else 0)
    paced = [hit] if _keeps_pace(case, hit) else case.attempts
    signs = [[a.started_at, *(r.at for r in a.reports if r.trained)] for a in paced]
    times = [[at for at in mine if at is not None] for mine in signs]
    gaps = [later - sooner for mine in times for sooner, later in pairwise(mine) if later > sooner]
    last = max((at for at in (hit.started_at, hit.heard_at) if at is not None), default=case.fault.at)
    silence = _stopped_at(case, hit) - last
    reports = max(0, int(silence / min(gaps, default=inf)))
    if len(hit.reports) < PACE_REPORTS and silence > 0 and (reports or not gaps):
        return None
    return _in_unit(case, reports)


def uploads_meanwhile(case: Case) -> bool:
    """Tell whether reports of the attempt that was hit returned before their checkpoints were uploaded."""
    reports = case.hit.reports if case.hit is not None else ()
    return any(report.handed and report.checkpoint is None for report in reports)


def _keeps_pace(case: Case, hit: RunAttempt) -> bool:
    """Tell whether its own pace bounds what an attempt did, not the fastest of all attempts.

    On a sick node it goes on for seconds, as before; reports that are lost would be a slower pace.
    """
    sick = case.fault.expected is Expected.SICK and case.run is not None and not case.run.missing
    return sick and sum(report.trained for report in hit.reports) > PACE_REPORTS


def _stopped_at(case: Case, hit: RunAttempt) -> float:
    """Return the time until which an attempt may have trained: on a sick node, until it is ended.

    Whoever ended it says when; without that, the next one may have begun long after. A node whose end is
    announced trains on until then.
    """
    if case.fault.traits.ends_node:
        return max(case.fault.at, min(case.over_at(hit), case.fault.done_at or case.fault.at))
    if case.fault.expected is not Expected.SICK:
        return case.fault.at
    health = case.evidence.health
    ends = [case.over_at(hit), health.reset_at if health and health.reset_at is not None else inf]
    return max(case.fault.at, min(ends)) if min(ends) < inf else case.fault.at


def uploads(case: Case) -> int:
    """Return how many checkpoints the attempt that was hit handed over after the newest committed one."""
    hit, right = case.hit, case.right
    if hit is None or right is None or case.run is None:
        return 0
    made = case.run.checkpoints
    later = [c for c in made[made.index(right) + 1 :] if c.attempt == hit.number] if right in made else []
    last = right.report if right.attempt == hit.number else 0
    numbers = {report.number for report in hit.reports if report.handed}
    numbers |= {state.report for state in hit.handed.get(0, ()) if state.saved}  # also if not returned
    handed = sum(number > last for number in numbers)
    return max(0, handed - len(later))


def in_flight(case: Case) -> Number:
    """Return the work of those checkpoints, in the unit of `lost_work`."""
    return _in_unit(case, uploads(case) * _interval(case))


def lost_work(case: Case) -> LostWork | None:
    """Return `lost` in the unit of the run: steps, or epochs where each is reported."""
    again = lost(case)
    if case.run is None or again is None:
        return None
    amount, apart = _in_unit(case, again), _in_unit(case, interval(case))
    if in_steps(case.run):
        return LostWork(amount, apart, case.word, max(0, _whole(case.run.stride) - 1))
    return LostWork(amount, apart, case.word if case.run.stride == 1 else "report")


def with_unseen(case: Case, again: LostWork, unseen: Number) -> Number:
    """Return the most work that may have been done again, in the unit of `again`.

    What nobody knows of the attempt that was hit was repeated, if at all, by the one that took over.
    """
    by_new = _in_unit(case, next(iter(_each_again(case)), 0))
    return max(again.amount, _whole(by_new + unseen))


def interval(case: Case) -> Number:
    """Return the usual distance between checkpoints, in reports; of a single one, its way from the start.

    Where a checkpoint was damaged, also the one to the checkpoint before it.
    """
    return _interval(case) * (2 if case.fault.damaged else 1)


def _interval(case: Case) -> Number:
    if case.run is None:
        return 1
    progress = [c.progress for c in case.run.checkpoints if c.progress is not None]
    origin = next((a.first.progress for a in case.attempts if a.first), None)
    gaps = Counter(b - a for a, b in pairwise(progress) if b > a)
    if gaps:
        return _in_reports(case, min(gaps, key=lambda gap: (-gaps[gap], gap)))
    if progress and origin is not None:
        return max(1, _in_reports(case, progress[0] - origin + case.run.stride))
    return 1


def _in_unit(case: Case, reports: Number) -> Number:
    """Return so many reports in the unit of the run: as steps where it counts these."""
    return _whole(reports * case.run.stride) if case.run and in_steps(case.run) else reports


def _in_reports(case: Case, progress: Number) -> Number:
    return _whole(progress / case.run.stride if case.run else progress)


def _whole(value: float) -> Number:
    return int(rounded) if (rounded := round(value, 3)) == int(rounded) else rounded
