"""Lesson 7: a node is lost in the middle of a training; the training goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from lab.errors import WaitTimeoutError
from lab.evidence.ledger import CommittedCheckpoint, Run, RunAttempt
from lab.flows.doctor.model import Check
from lab.flows.lessons.model import Beside, Evidence, Lesson, failed, job_prefix, passed
from lab.flows.recovery import FaultRequest, inject
from lab.host.clock import WALL
from lab.lab import Lab

PART = "break"
AFTER_EPOCH = 3
"""labctl breaks the node once this epoch is stored."""

START_SECONDS = 600.0
"""How long the notebook's job may take to begin training."""

POLL_SECONDS = 1.0
SUBMIT = "run the notebook from its first cell"


@dataclass(frozen=True)
class Story:
    """What happened to the lesson's training."""

    run: Run
    hit: RunAttempt
    """The attempt that failed."""
    after: RunAttempt
    """The attempt that trained next."""
    newest: CommittedCheckpoint | None
    """What was stored last before that."""


def story(evidence: Evidence) -> Story | None:
    """The first failure that was followed by a training; None when there was none."""
    job = evidence.job(PART)
    history = evidence.histories.get(job.submission_id) if job else None
    run = history.runs[0] if history and history.runs else None
    if run is None:
        return None
    hit = next((each for each in run.attempts if each.failure_detected_at is not None), None)
    if hit is None:
        return None
    after = next((each for each in run.attempts if each.number > hit.number and each.first), None)
    if after is None:
        return None
    before = [each for each in run.checkpoints if each.attempt < after.number]
    return Story(run, hit, after, before[-1] if before else None)


def fault_was_real(evidence: Evidence) -> Check:
    """Ray Train noticed a failure after a checkpoint was stored, and started the training again."""
    name = "the fault was real"
    told = story(evidence)
    if told is None:
        return failed(
            name, "no attempt failed and was followed by another one", f"{SUBMIT}, and break it sooner"
        )
    if told.newest is None:
        return failed(name, "it was broken before a checkpoint was stored", "wait for the first epochs")
    where = ", ".join(evidence.service_of(node) or "a lost node" for node in told.hit.nodes.values())
    then = ", ".join(evidence.service_of(node) or "?" for node in told.after.nodes.values())
    return passed(
        name, f"attempt {told.hit.number} failed on {where}, attempt {told.after.number} ran on {then}"
    )


def right_checkpoint(evidence: Evidence) -> Check:
    """What was loaded is the newest checkpoint, every file of it with the SHA-256 with which it was saved."""
    name = "the newest checkpoint was loaded"
    told = story(evidence)
    if told is None or told.newest is None:
        return failed(name, "nothing was stored before a failure", SUBMIT)
    if not told.after.loads:
        return failed(name, "nothing was loaded", "the script must load what get_checkpoint() gives")
    load = told.after.loads[0]
    if load.uri != told.newest.uri:
        return failed(name, f"{_last(load.uri)} was loaded, the newest was {_last(told.newest.uri)}")
    if load.files is None or not told.newest.accepts(load.files):
        return failed(name, f"{_last(load.uri)}: what was loaded differs from what was saved")
    return passed(name, f"{_last(load.uri)}, equal SHA-256")


def resumed(evidence: Evidence) -> Check:
    """The first epoch after the fault is the one after the checkpoint's."""
    name = "resumed, not restarted"
    told = story(evidence)
    first = told.after.first if told else None
    if told is None or told.newest is None or told.newest.progress is None or first is None:
        return failed(name, "nothing was resumed", SUBMIT)
    wanted = told.newest.progress + told.run.stride
    found = f"stored: epoch {told.newest.progress:g}; first epoch after it: {first.progress:g}"
    if first.progress == wanted:
        return passed(name, found)
    return failed(name, found, "the script must go on from what it loads")


def little_repeated(evidence: Evidence) -> Check:
    """At most the work since the newest checkpoint, one epoch, was done twice."""
    name = "little was repeated"
    told = story(evidence)
    first = told.after.first if told else None
    if told is None or first is None or first.progress is None or told.hit.furthest is None:
        return failed(name, "nothing was resumed", SUBMIT)
    repeated = max(0, told.hit.furthest - first.progress + told.run.stride)
    found = f"epochs done twice: {repeated:g}"
    if repeated <= told.run.stride:
        return passed(name, found)
    return failed(name, found, "save a checkpoint in every epoch, and load the newest")


def job_succeeded(evidence: Evidence) -> Check:
    """The job came to its end."""
    name = "the job succeeded"
    job = evidence.job(PART)
    if job is None:
        return failed(name, f"there is no job lesson-07-{PART}-...", SUBMIT)
    if job.status == "SUCCEEDED":
        return passed(name, job.submission_id)
    return failed(name, f"{job.submission_id} is {job.status}", "wait for it, or read its log")


def receipt_agrees(evidence: Evidence) -> Check:
    """labctl's receipt says `recovered`; where the notebook did it without labctl, the ledger decides."""
    name = "labctl's receipt"
    job = evidence.job(PART)
    mine = [
        each
        for each in evidence.receipts
        if job and each.get("job", {}).get("submission_id") == job.submission_id
    ]
    if mine:
        verdict = str(mine[-1].get("verdict"))
        if verdict == "recovered":
            return passed(name, verdict)
        wrong = [c for c in mine[-1].get("checks", ()) if not c.get("passed")]
        found = "; ".join([verdict, *(f"{c.get('name')}: {c.get('detail')}" for c in wrong)])
        return failed(name, found, "`labctl status` says what is down; run the notebook again")
    if story(evidence) is None:
        return failed(name, "there is none, and the ledger knows of no fault", SUBMIT)
    return passed(name, "there is none; the ledger decides")


@dataclass(frozen=True)
class BesideClock:
    """The wall clock of what runs beside a notebook: its waits end with the notebook."""

    beside: Beside

    def __call__(self) -> float:
        """The time in seconds since the epoch."""
        return WALL()

    def sleep(self, seconds: float) -> None:
        """Wait. Raises NotebookOverError as soon as the notebook is over."""
        self.beside.sleep(seconds)


def break_a_node(lab: Lab, beside: Beside) -> None:
    """What the class does by hand: kill the node on which the lesson's job trains.

    Raises LabError when the job does not begin to train, or the node cannot be broken.
    """
    before = {job.submission_id for job in lab.jobs.list()}
    job, target = _wait_for_training(lab, beside, before)
    request = FaultRequest(target, "kill", job, after_epoch=AFTER_EPOCH)
    beside(f"labctl fault-inject {target} --job {job}")
    outcome = inject(lab, request, lambda moment: beside(moment.text), clock=BesideClock(beside))
    if outcome.receipt is not None:
        beside(f"receipt: {outcome.receipt.verdict.value}: {outcome.receipt.reason}")


def _wait_for_training(lab: Lab, beside: Beside, before: Set[str]) -> tuple[str, str]:
    """The lesson's job that runs, and the service on which its first rank trains.

    Jobs that were there `before` are another run's. Raises WaitTimeoutError.
    """
    seen = "the notebook has submitted no job"
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        for job in lab.jobs.list():
            mine = job.submission_id.startswith(f"{job_prefix(LESSON.number)}{PART}-")
            if job.final or not mine or job.submission_id in before:
                continue
            seen = f"job {job.submission_id} is {job.status} and does not train"
            runs = lab.history(job.submission_id).runs
            nodes = runs[0].attempts[-1].nodes if runs and runs[0].attempts else {}
            services = {node.node_id: node.service for node in lab.api.nodes()}
            if nodes and nodes[min(nodes)] in services:
                return job.submission_id, services[nodes[min(nodes)]]
        beside.sleep(POLL_SECONDS)
    raise WaitTimeoutError(f"{seen}, after {START_SECONDS:g} s", "look at `labctl jobs`")


def _last(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]


LESSON = Lesson(
    number=7,
    name="fault-tolerance",
    title="Fault tolerance",
    notebook="07-fault-tolerance.ipynb",
    minutes=20,
    checks=(fault_was_real, right_checkpoint, resumed, little_repeated, job_succeeded, receipt_agrees),
    needs=("food11",),
    meanwhile=break_a_node,
    seconds=1800.0,
)
