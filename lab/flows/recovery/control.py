"""The control run: repeats a job undisturbed, and compares the results of both."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass
from datetime import datetime, timezone

from lab.api.receipt import ControlDocument, CurvesDocument
from lab.cluster.jobs import Job
from lab.cluster.queues import WORKLOAD
from lab.cluster.recipes import recipe_folder
from lab.cluster.submission import RESUME_VARIABLE
from lab.errors import JobError, LabError, RefusedError, WaitTimeoutError
from lab.evidence.ledger import History
from lab.evidence.receipt import Comparison, compare_curves, compare_runs
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.request import Moment, OnMoment, outages
from lab.flows.recovery.watch import Watch, progress_name
from lab.host.clock import WALL, Clock
from lab.lab import Lab

CONTROL_OF = "raylab_control_of"
"""Metadata of a control run: the submission id of the job that it repeats."""

TIME_OF_DAY = re.compile(r"\d{4}-?\d\d-?\d\d[-_T ]?\d\d[-:.]?\d\d([-:.]?\d\d)?")
SECONDS = re.compile(r"(?<!\d)\d{10}(?=(?:\d{3}){0,3}(?!\d))")
RANDOM = re.compile(r"(?<![0-9a-f])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}(?![0-9a-f])")
"""Parts of a run's name that may change: a date with a time, as Ray's own names have, a count of seconds (or
milliseconds, ...) since the epoch, a random id. A day alone does not, nor does any other number."""

ZONES_SECONDS = 24 * 3600.0
"""A time that was written down while the job ran is at most so far from it, in whatever zone it is."""

OWN_NAME = "leave RunConfig(name=...) out, or give every job another name"


@dataclass(frozen=True)
class Control:
    """A job, its control run, and the comparison of both. `seconds` is the duration of the control run."""

    job: str
    submission_id: str
    comparison: Comparison
    """The last reports compared: progress, metrics, weights."""
    curves: CurvesDocument
    """All epochs compared; `a` is the job, `b` the control run."""
    seconds: float
    history: History
    """The control run's own."""

    def document(self) -> ControlDocument:
        """As receipts have it."""
        return ControlDocument(
            self.submission_id,
            round(self.seconds, 3),
            self.comparison.weights,
            self.comparison.detail,
            self.curves,
        )


def run_control(
    lab: Lab, job_id: str, on_moment: OnMoment, *, history: History | None = None, clock: Clock = WALL
) -> Control:
    """Submit an ended job again, as it was, wait for its end, and compare both runs.

    `history` is the job's, where other jobs went on in its place; else that of its own ledger.
    The control run is stopped when this is interrupted. Raises NotFoundError; RefusedError where the job
    still runs, its files are gone, or its run has a fixed name: it would resume what has ended instead
    of training; JobError when the control run fails; WaitTimeoutError when it makes no progress; StoreError.
    """
    job, history = lab.jobs.get(job_id), history or lab.history(job_id)
    if not job.final:
        raise RefusedError(f"job {job_id} is still {job.status}", "a control run needs the machine to itself")
    refuse_fixed_names(lab, job_id, history)
    begin = clock()
    name = {"job_name": f"{job.metadata['job_name'][:56]}-control"} if "job_name" in job.metadata else {}
    control = lab.jobs.submit_again(
        job_id,
        {CONTROL_OF: job_id, **name},
        recipe_folder(job.recipe),
        environment=_another_run(job, begin),
    )
    on_moment(Moment("control", None, f"job {control}: the same training, undisturbed"))
    try:
        ended = _follow(Watch(lab, control, clock, outages(on_moment)), job_id, history, on_moment)
    except BaseException:
        with contextlib.suppress(LabError):
            lab.jobs.stop(control)
        raise
    if ended.status != "SUCCEEDED":
        raise JobError(
            f"the undisturbed run {control} ended {ended.status}: {ended.message}",
            f"labctl jobs logs {control}",
        )
    repeated = lab.history(control)
    comparison, curves = compare_runs(history, repeated), compare_curves(history, repeated)
    result = Control(job_id, control, comparison, curves, clock() - begin, repeated)
    on_moment(Moment("compared", None, f"{comparison.weights} weights; {curves.detail}"))
    return result


def _another_run(job: Job, now: float) -> dict[str, str]:
    """Environment in which a job that a queue submitted begins a run of its own, and resumes none."""
    queued = WORKLOAD in job.metadata
    return {RESUME_VARIABLE: f"{job.submission_id}-control-{int(now)}"} if queued else {}


def control_of(jobs: tuple[Job, ...], job_id: str) -> Job | None:
    """The newest control run of a job that succeeded, among these, newest first; None when there is none."""
    candidates = (job for job in jobs if job.metadata.get(CONTROL_OF) == job_id and job.status == "SUCCEEDED")
    return next(candidates, None)


def _follow(watch: Watch, job_id: str, original: History, on_moment: OnMoment) -> Job:
    """The control run once it has ended, its epochs emitted. Raises WaitTimeoutError, RefusedError."""
    shown: float | None = None

    def look() -> None:
        nonlocal shown
        _refuse_resumed(job_id, original, watch.history)
        last = watch.run.last if watch.run else None
        if last is not None and last.progress is not None and last.progress != shown:
            shown = last.progress
            on_moment(Moment("progress", None, f"control run: {progress_name(watch.run)} {shown}"))

    patience = Patience(watch)
    ended = patience.wait_for_end(look)
    if ended is None:
        raise WaitTimeoutError(
            f"the undisturbed run {watch.submission_id} has not ended in time; it is {watch.status}; "
            f"{patience.describe()}",
            f"labctl jobs logs {watch.submission_id}",
        )
    return ended


def refuse_fixed_names(lab: Lab, job_id: str, history: History) -> None:
    """Refuse a job with a run whose name the control run would share. Raises RefusedError."""
    job = lab.jobs.get(job_id)
    for run in history.runs:
        began = run.attempts[0].scheduled_at if run.attempts else None
        if job_id not in run.name and not _changes(run.name, job, began):
            raise RefusedError(
                f"job {job_id} calls its run {run.name!r}: a control run would resume it, not train",
                OWN_NAME,
            )


def _changes(name: str, job: Job, began: float | None) -> bool:
    """Tell if a run's name is another one each time: a part of it was made while the job ran.

    What its command says was there before. A count of seconds was made then if it says so.
    """
    since, until = job.started_at or 0.0, began or math.inf
    parts = [match[0] for match in RANDOM.finditer(name)]
    parts += [match[0] for match in SECONDS.finditer(name) if since - 1 <= int(match[0]) <= until]
    parts += [
        match[0] for match in TIME_OF_DAY.finditer(name) if abs(_time(match[0]) - since) <= ZONES_SECONDS
    ]
    return any(part not in job.entrypoint for part in parts)


def _time(text: str) -> float:
    """The time that a date with a time of day stands for, in no particular zone; -inf for what is none."""
    try:
        moment = datetime.strptime(re.sub(r"\D", "", text)[:12], "%Y%m%d%H%M")
    except ValueError:
        return -math.inf
    return moment.replace(tzinfo=timezone.utc).timestamp()


def _refuse_resumed(job_id: str, original: History, control: History) -> None:
    """A run that begins with a checkpoint which the original did not begin with repeats nothing."""
    given = {r.uri for run in original.runs if run.attempts for r in run.attempts[0].requests}
    names = {run.name for run in original.runs}
    for run in control.runs:
        if run.name in names:
            raise RefusedError(
                f"the control run of job {job_id} has the same run name, {run.name!r}: it resumes a run that "
                "has ended",
                OWN_NAME,
            )
        asked = run.attempts[0].requests if run.attempts else ()
        other = next((r.uri for r in asked if r.uri is not None and r.uri not in given), None)
        if other is not None:
            raise RefusedError(f"the control run of job {job_id} began with the checkpoint {other}", OWN_NAME)
