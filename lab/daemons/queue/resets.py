"""Resets: an attempt ends and the next one begins while the job keeps its quota, by AppWrapper's rules.

Ray Train brings back ranks by itself, as a controller of pods brings back pods: that is what the failure
grace is for. A job that Ray calls failed is over, so nothing is waited for but the pause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from kueue.item import FINISHED, Item
from lab.api.queue import Attempt, Stop
from lab.cluster.jobs import Job
from lab.cluster.retries import RetryPolicy
from lab.daemons.queue.controller import Controller, Draft
from lab.daemons.queue.model import (
    DONE,
    INACTIVE,
    LOST,
    QUEUED,
    RESETTING,
    RUNNING,
    STOPPING,
    SUBMITTING,
    QueuedJob,
    Record,
)
from lab.daemons.queue.takes import covers
from lab.host.quantities import format_duration

FAILED_COMPONENT = "FailedComponent"
FOUND_FAILED = "FoundFailedPods"
NOT_READY = "InsufficientPodsReady"
UNHEALTHY = "AutopilotNoExecute"
"""Reasons of a reset: the job failed, ranks were lost or never came, and a health check said EVICT."""

MOST_HEADS, HEAD_SECONDS = 3, 120.0
"""A job fails once the head was lost so often in a row, each time so soon: it may be what kills the head."""

HEAD_LOST = "Ray no longer knows the job: its head was lost"
ENDS_HEADS = f"Ray's head was lost {MOST_HEADS} times in a row soon after the job began"

FREE_RESETS, FREE_SECONDS = 10, 3600.0
"""Number of resets within so many seconds that can be free of charge: a job may find only sick places."""

FREE_PAUSES = (1.0, 60.0)
"""Pause after the second of these, doubled with each that follows, and the longest; the first has none."""

EXIT_CODE = re.compile(r"exit code:? (-?\d{1,3})\b")
"""Words in which Ray's message of a failed job tells its exit code."""


def exit_code(job: Job) -> int | None:
    """Exit code of a job that has ended, as a shell counts it: 128 and its number for a signal."""
    code = job.exit_code
    if code is None and (match := EXIT_CODE.search(job.message)) is not None:
        code = int(match[1])
    return 128 - code if code is not None and code < 0 else code


def refusal(job: QueuedJob, attempt: Attempt, status: str) -> str:
    """Reason against another attempt of a job that ended with this status; empty where there is none."""
    policy = job.retry
    if policy is None or status != "FAILED":
        return "no retry policy" if policy is None else "it was stopped"
    if policy.terminal(attempt.exit_code):
        return f"exit code {attempt.exit_code} is terminal"
    if job.retries >= policy.limit:
        return f"{job.retries} of {policy.limit} retries are used up"
    return ""


def watched(attempt: Attempt, whole: bool, now: float) -> Attempt:
    """The attempt with a note of when it had all that it was granted, and since when it has not."""
    if whole:
        return replace(attempt, whole_at=attempt.whole_at or now, short_since=None)
    if attempt.whole_at is not None and attempt.short_since is None:
        return replace(attempt, short_since=now)
    return attempt


def overdue(policy: RetryPolicy, attempt: Attempt, now: float) -> tuple[str, str] | None:
    """Reason and message of a reset that is due because ranks are missing."""
    if attempt.whole_at is None and now - attempt.admitted_at > policy.warmup:
        waited = format_duration(policy.warmup)
        return NOT_READY, f"it does not hold all that it was granted {waited} after its admission"
    if attempt.short_since is not None and now - attempt.short_since > policy.failure_grace:
        return FOUND_FAILED, f"ranks were lost and not back after {format_duration(policy.failure_grace)}"
    return None


def order(draft: Draft, record: Record, reason: str, message: str, *, charged: bool) -> None:
    """End the newest attempt and begin another; the job fails where a charged retry is not left.

    One that charges nothing is charged all the same when there were too many of these.
    """
    policy = record.job.retry or RetryPolicy()
    if not charged and _free(record, draft.now) >= FREE_RESETS:
        charged = True
        message += f"; no reset is free after {FREE_RESETS} within {format_duration(FREE_SECONDS)}"
    if charged and record.job.retries >= policy.limit:
        why = f"{message}; {record.job.retries} of {policy.limit} retries are used up"
        stop = Stop(DONE, reason, why, draft.now, outcome="Failed")
    else:
        stop = Stop(RESETTING, reason, message, draft.now, charged=charged)
    draft.put(replace(record, phase=STOPPING, stop=stop))
    if stop.to == RESETTING:
        draft.tell("Resetting", record.key, reason, message)


def closed(record: Record, attempt: Attempt, reason: str, *, charged: bool) -> Record:
    """The record between two attempts; `attempt` has ended."""
    if charged:
        pause = (record.job.retry or RetryPolicy()).pause
    else:
        first, longest = FREE_PAUSES
        before = _free(record, attempt.ended_at or 0.0)
        pause = min(longest, first * 2.0 ** (before - 1)) if before else 0.0
    done = replace(attempt, reset=reason, charged=charged, pause=pause)
    return replace(record.with_attempt(done), phase=RESETTING, stop=None)


def _free(record: Record, now: float) -> int:
    """Number of resets within FREE_SECONDS that charged nothing."""
    return sum(
        1
        for attempt in record.job.attempts
        if attempt.reset and not attempt.charged and (attempt.ended_at or 0.0) > now - FREE_SECONDS
    )


def resume_at(attempt: Attempt) -> float:
    """Time of the next attempt after one that was reset."""
    return (attempt.ended_at or 0.0) + attempt.pause


def phase_of(record: Record, item: Item) -> str:
    """Phase of a job in AppWrapper's words."""
    if item.state == FINISHED:
        return "Succeeded" if item.reason == "Succeeded" else "Failed"
    stop = record.stop
    if record.phase == STOPPING and stop is not None and stop.to != RESETTING:
        return "Terminating" if stop.to == DONE else "Suspending"
    return {
        **dict.fromkeys((QUEUED, INACTIVE), "Suspended"),
        SUBMITTING: "Resuming",
        RUNNING: "Running",
        **dict.fromkeys((STOPPING, RESETTING), "Resetting"),
    }[record.phase]


def watch(
    draft: Draft,
    item: Item,
    record: Record,
    status: str,
    taken: Mapping[str, Mapping[str, float]] | None,
) -> None:
    """Reset a job that has a retry policy and lacks for too long what it was granted.

    `status` is Ray's, `taken` what each submission holds; None where that is not known yet.
    """
    policy, attempt = record.job.retry, record.attempt
    if policy is None or attempt is None or (status == "RUNNING" and taken is None):
        return
    held = (taken or {}).get(attempt.submission_id, {})
    known = watched(attempt, status == "RUNNING" and covers(held, record.job, item), draft.now)
    if known != attempt:
        record = record.with_attempt(known)
        draft.put(record)
    if (due := overdue(policy, known, draft.now)) is not None:
        order(draft, record, *due, charged=True)


def proceed(draft: Draft, controller: Controller, record: Record) -> None:
    """Go on with a job that holds quota and has no attempt in Ray: after its pause, or as ordered."""
    attempt, stop = record.attempt, record.stop
    if attempt is None or not attempt.ended:
        return
    if stop is not None and stop.to == DONE:
        draft.finish(record.key, stop.outcome, stop.message)
    elif stop is not None:
        draft.gone(record.key, stop.message)
    elif record.phase == RESETTING:
        if controller.engine.items[record.key].ready:
            draft.set_ready(record.key, False)
        if not controller.away and draft.now >= resume_at(attempt):
            draft.attempt(record)
            draft.tell("Resuming", record.key, "Resuming", f"attempt {attempt.number + 1} begins")


def ends_heads(job: QueuedJob, attempt: Attempt, now: float) -> bool:
    """Tell if this attempt, which is lost now, and those before it began and lost the head soon each time."""
    earlier = [other for other in job.attempts if other.number < attempt.number]
    last = [*earlier, replace(attempt, ended=LOST, ended_at=now)][-MOST_HEADS:]
    return len(last) == MOST_HEADS and all(
        one.ended == LOST and (one.ended_at or 0.0) - (one.seen_at or 0.0) < HEAD_SECONDS for one in last
    )
