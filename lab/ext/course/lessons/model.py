"""Lessons, the evidence of their checks, and results: plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lab.api.base import Plain
from lab.api.receipt import ReceiptDocument
from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.evidence.ledger import History
from lab.ext.course.batch_documents import BatchEvidence
from lab.ext.course.documents import CheckRecord, JobRecord, ResultDocument, signed, written
from lab.host.clock import Clock
from lab.host.quantities import rounded
from lab.topology import Check, GpuPlan, LabStatus, Vendor

if TYPE_CHECKING:
    from lab.lab import Lab

LESSONS_PREFIX = ".raylab/lessons"
"""Folder in the bucket with the records, results and executed notebooks of lessons."""

NOTEBOOK_SECONDS = 900.0
"""Deadline of a whole notebook that `labctl lesson run` executes."""

SUBMIT = "run the notebook from its first cell"
"""Hint of a check that lacks a job."""

T = TypeVar("T")

NOTHING = LabStatus("", "", False, (), GpuPlan(Vendor.NONE))


def job_prefix(number: int, person: str = "") -> str:
    """Prefix of the ids of a lesson's jobs: `lesson-04-`, or `ann-lesson-04-` of a person of a class."""
    return f"{person}-lesson-{number:02d}-" if person else f"lesson-{number:02d}-"


@dataclass(frozen=True)
class Evidence:
    """Evidence of the checks of one lesson, gathered beforehand. Times are seconds since the epoch."""

    lesson: int
    began_at: float | None = None
    """Time of the last run of the notebook's first cell; None when it never ran."""
    jobs: tuple[Job, ...] = ()
    """Jobs whose ids begin with `job_prefix`, submitted since `began_at`, newest first."""
    queued: tuple[Job, ...] = ()
    """In a class the same as its notebook has them, with the times of their queue: a job is admitted before
    Ray takes it, and its end is seen later."""
    histories: Mapping[str, History] = field(default_factory=dict)
    """Job id -> its ledger. Every job of `jobs` has an entry, perhaps without runs."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """Job id -> output of its driver; empty where there is no log."""
    demands: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Job id -> demand of its entrypoint on one node, as Ray has it: resource -> amount."""
    records: Mapping[str, Any] = field(default_factory=dict)
    """Values that the notebook kept with `Session.record`: claims, to be held against the rest."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Number of a question -> what the student wrote. Nobody judges it but the teacher."""
    nodes: tuple[Node, ...] = ()
    """Every node Ray knows, dead ones included, oldest first."""
    receipts: tuple[ReceiptDocument, ...] = ()
    """The recovery receipts of these jobs, oldest first."""
    batches: Mapping[str, BatchEvidence] = field(default_factory=dict)
    """Job id -> the evidence of its batch of inference, for those that have one."""
    store_objects: tuple[str, ...] = ()
    """Keys of the objects that the runs of these jobs have stored, and of the lesson's own."""
    status: LabStatus = NOTHING
    ray_version: str = ""
    running: tuple[str, ...] = ()
    """Ids of all jobs of the lab, of whatever lesson or none, that have not ended."""
    kept: tuple[str, ...] = ()
    """Places of the lab's objects that outlive `labctl down`; known on the host only."""
    person: str = ""
    """The person of a class whose jobs these are; empty in a lab of one's own."""

    def job(self, part: str) -> Job | None:
        """The newest job that `Session.new_job(part)` named, or None."""
        return self._newest(self.jobs, part)

    def submitted(self, part: str) -> Job:
        """That job. Raises NotDoneError where there is none."""
        return need(self.job(part), f"there is no job {job_prefix(self.lesson)}{part}-...", SUBMIT)

    def demand(self, part: str) -> Mapping[str, float]:
        """What that job's entrypoint asked of one node; nothing where that is not known."""
        return self.demands.get(self.submitted(part).submission_id, {})

    def log(self, part: str) -> str:
        """Output of that job's driver; empty where there is none."""
        job = self.job(part)
        return self.logs.get(job.submission_id, "") if job else ""

    def in_notebook(self, part: str) -> Job | None:
        """The same as the notebook has it: `session.lab.jobs`."""
        return self._newest(self.queued if self.person else self.jobs, part)

    def _newest(self, jobs: tuple[Job, ...], part: str) -> Job | None:
        name = re.compile(rf"{job_prefix(self.lesson, self.person)}{part}-\d{{8}}-\d{{6}}")
        return next((job for job in jobs if name.fullmatch(job.submission_id)), None)

    def service_of(self, node_id: str) -> str:
        """The service of a node id, such as `ray-worker-0`; empty for a node Ray does not know."""
        return next((node.service for node in self.nodes if node.node_id == node_id), "")

    def receipts_of(self, part: str) -> tuple[ReceiptDocument, ...]:
        """The receipts of the newest job of this part, oldest first."""
        job = self.job(part)
        return tuple(r for r in self.receipts if job and r.job.submission_id == job.submission_id)


class NotDoneError(Exception):
    """What a check looks for is missing, or not as it should be: what is there instead, and what to do."""

    def __init__(self, detail: str, hint: str = "") -> None:
        """Without a hint the check's own one is shown."""
        super().__init__(detail)
        self.detail, self.hint = detail, hint


@dataclass(frozen=True)
class LessonCheck:
    """One question of a lesson about its evidence."""

    name: str
    hint: str
    """What to do where it does not pass."""
    look: Callable[[Evidence], str]
    """Returns the number or fact that says that it passed; else raises NotDoneError."""

    def __call__(self, evidence: Evidence) -> Check:
        """The answer; failed, too, where the records of a student's notebook cannot be read."""
        try:
            return Check(self.name, "passed", self.look(evidence))
        except NotDoneError as lack:
            return Check(self.name, "failed", lack.detail, lack.hint or self.hint)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError) as error:
            detail = f"what was recorded cannot be read ({type(error).__name__}: {error})"
            return Check(self.name, "failed", detail)


def check(name: str, hint: str = SUBMIT) -> Callable[[Callable[[Evidence], str]], LessonCheck]:
    """Make a check of this name of a function that looks at the evidence."""
    return partial(LessonCheck, name, hint)


def need(value: T | None, lack: str, hint: str = "") -> T:
    """The value. Raises NotDoneError where there is none."""
    if value is None:
        raise NotDoneError(lack, hint)
    return value


def holds(ok: bool, detail: str, hint: str = "") -> str:
    """The detail of a check that passed. Raises NotDoneError for one that did not."""
    if not ok:
        raise NotDoneError(detail, hint)
    return detail


class NotebookOverError(Exception):
    """The notebook is over; its host task has to end."""


@dataclass(frozen=True)
class HostTask:
    """Handle of a task on the host beside a notebook.

    `say` and the clock's `sleep` raise NotebookOverError once the notebook has failed or was interrupted.
    """

    say: Callable[[str], None]
    """Report progress, a line at a time."""
    clock: Clock


@dataclass(frozen=True)
class Lesson:
    """One exercise: a notebook in workspace/notebooks, and the checks that say whether it was done."""

    number: int
    name: str
    """Short, as in the file's name: `two-workers`."""
    title: str
    minutes: int
    """Time that a student takes, as a rule."""
    checks: tuple[LessonCheck, ...]
    """Checks that are asked while the lab is up, in the notebook and on the host."""
    needs: tuple[str, ...] = ()
    """Datasets, by name: `food11`."""
    host_task: Callable[[Lab, HostTask], None] | None = None
    """Does on the host, beside the notebook under `labctl lesson run`, what the class does by hand."""
    checks_after_down: tuple[LessonCheck, ...] = ()
    """Checks that are asked on the host once the lab is down; `checks` were answered before."""
    in_class: bool = True
    """Whether a person of a class can do it in her JupyterLab."""
    breaks_node: bool = False
    """Whether she breaks a node in it, which she can where the class is plain processes."""
    seconds: float = NOTEBOOK_SECONDS
    """Deadline of the notebook under `labctl lesson run`."""

    @property
    def notebook(self) -> str:
        """File in workspace/notebooks."""
        return f"{self.number:02d}-{self.name}.ipynb"

    @property
    def asked(self) -> int:
        """Number of its checks."""
        return len(self.checks) + len(self.checks_after_down)


def job_record(job: Job) -> JobRecord:
    """The job as a result has it."""
    return JobRecord(job.submission_id, job.status, rounded(job.started_at))


@dataclass(frozen=True, repr=False)
class LessonResult:
    """A lesson as it was just checked: what is kept of it, and its checks with their advice."""

    document: ResultDocument
    """With its digest: a public contract."""
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, frame: ResultDocument, checks: tuple[Check, ...], at: float) -> LessonResult:
        """The result of these checks, at this time; everything else is as in `frame`."""
        document = replace(
            frame,
            at=round(at, 3),
            passed=bool(checks) and all(check.outcome == "passed" for check in checks),
            checks=tuple(CheckRecord(c.name, c.outcome == "passed", c.detail) for c in checks),
        )
        return cls(signed(document), checks)

    def __repr__(self) -> str:
        """Short: a notebook's last cell shows it below the table."""
        return f"<lesson {self.document.lesson}: {'passed' if self.passed else 'not passed yet'}>"

    @property
    def passed(self) -> bool:
        """True when there are checks and every one passed."""
        return self.document.passed

    def to_json(self) -> Plain:
        """The document as plain data for `json.dumps`."""
        return written(self.document)
