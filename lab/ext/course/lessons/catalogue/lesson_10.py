"""Lesson 10: two teams share a cohort; one borrows a GPU, gives it back, and resumes from its checkpoint."""

from __future__ import annotations

from lab.api.receipt import ReceiptDocument, Verdict
from lab.cluster.jobs import Job
from lab.ext.course.lessons.catalogue.training import SUBMIT, attempt_of, run_of, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, LessonCheck, answer, failed, passed
from lab.services import is_worker
from lab.topology import Check

BORROW, RECLAIM = "borrow", "reclaim"
"""Parts of the lesson: the job of the team that borrows, and that of the team that takes its own back."""

BLUE, RED = "alice/blue", "bob/red"
"""Their LocalQueues, as the example `two-teams` makes them."""

RANKS = 2
RECLAIMED = "InCohortReclamation"


def queue_of(job: Job) -> str:
    """The LocalQueue that the job came from; empty for one that was submitted past the queues."""
    return job.metadata.get("raylab_queue", "")


def turns(evidence: Evidence) -> tuple[Job, ...]:
    """The attempts of the borrower in order: its job, and those that went on with it."""
    first = evidence.job(BORROW)
    if first is None:
        return ()
    begin = f"{first.submission_id}-"
    later = {
        int(number): job
        for job in evidence.jobs
        if job.submission_id.startswith(begin) and (number := job.submission_id[len(begin) :]).isdigit()
    }
    return (first, *(later[number] for number in sorted(later)))


def borrowed(evidence: Evidence) -> Check:
    """The job of team blue came from its queue, and trained on the GPUs of both teams."""
    name = "blue borrowed red's GPU"
    job, run, attempt = evidence.job(BORROW), run_of(evidence, BORROW), attempt_of(evidence, BORROW)
    if job is None or run is None or attempt is None:
        return failed(name, "no job of blue has trained", SUBMIT)
    gpus = run.plan.resources_per_worker.get("GPU", 0) if run.plan else 0
    places = {service for node in attempt.nodes.values() if is_worker(service := evidence.service_of(node))}
    detail = f"{len(places)} workers, {gpus:g} GPU each, from {queue_of(job) or 'no queue'}"
    ok = queue_of(job) == BLUE and len(places) == len(attempt.nodes) == RANKS and gpus >= 1
    return answer(ok, name, detail, f"{SUBMIT}: {RANKS} workers with a GPU each, queue {BLUE}")


def got_back(evidence: Evidence) -> Check:
    """The job of team red came from its queue, asked for a GPU, and succeeded."""
    name = "red got its GPU back"
    check = succeeded(RECLAIM, name)(evidence)
    job = evidence.job(RECLAIM)
    if job is None or check.outcome != "passed":
        return check
    gpus = evidence.demands.get(job.submission_id, {}).get("GPU", 0)
    ok = queue_of(job) == RED and gpus >= 1
    return answer(
        ok, name, f"{gpus:g} GPU from {queue_of(job) or 'no queue'}", f"{SUBMIT}: a GPU, queue {RED}"
    )


def resumed(evidence: Evidence) -> Check:
    """The borrower's next attempt loaded the newest checkpoint of the one before, and trained from there."""
    name = "blue resumed from its newest checkpoint"
    attempts = turns(evidence)
    if len(attempts) < 2:
        return failed(name, "blue was not admitted a second time", f"{SUBMIT}, and wait for both jobs")
    runs = [evidence.histories[job.submission_id].runs for job in attempts[:2]]
    if not (runs[0] and runs[0][-1].checkpoints and runs[1]):
        return failed(name, "there is no checkpoint, or nothing trained after it", SUBMIT)
    newest, again = runs[0][-1].checkpoints[-1], runs[1][0]
    trained = next((attempt for attempt in again.attempts if attempt.first), None)
    if trained is None or trained.first is None:
        return failed(name, "the second attempt reported nothing", SUBMIT)
    loaded = newest.uri in {load.uri for load in trained.loads}
    detail = f"stored: epoch {newest.progress}, first epoch after it: {trained.first.progress}"
    ok = loaded and newest.progress is not None and trained.first.progress == newest.progress + 1
    hint = "the script must load what get_checkpoint() gives"
    return answer(ok, name, detail if loaded else f"{detail}; it was not loaded", hint)


def ended_well(evidence: Evidence) -> Check:
    """The borrower's last attempt succeeded."""
    name = "blue's training came to its end"
    attempts = turns(evidence)
    if not attempts:
        return failed(name, "there is no job of blue", SUBMIT)
    detail = ", ".join(f"{job.submission_id} {job.status}" for job in attempts)
    return answer(attempts[-1].status == "SUCCEEDED", name, detail, "wait for it, or read its log")


def receipts_of(evidence: Evidence) -> tuple[ReceiptDocument, ...]:
    """The receipts of the borrower's preemptions, oldest first."""
    return tuple(receipt for receipt in evidence.receipts_of(BORROW) if receipt.preemption)


def on_receipt(name: str, question: LessonCheck) -> LessonCheck:
    """A check that fails with one answer while there is no receipt."""

    def check(evidence: Evidence) -> Check:
        if not receipts_of(evidence):
            hint = "run the cell that makes the receipt, once both jobs have ended"
            return failed(name, "there is no receipt of a preemption", hint)
        return question(evidence)

    return check


def gave_way(evidence: Evidence) -> Check:
    """The receipt names red's job, and the reason with which a cohort takes back what was borrowed."""
    name = "blue gave way to red"
    preemption = receipts_of(evidence)[0].preemption
    assert preemption is not None
    job = evidence.job(RECLAIM)
    wanted = f"{RED.partition('/')[0]}/{job.submission_id}" if job is not None else ""
    ok = preemption.by == wanted and preemption.reason == RECLAIMED
    return answer(
        ok, name, f"{preemption.reason}, for {preemption.by}", f"{SUBMIT}, with nothing else in the queues"
    )


def proven(evidence: Evidence) -> Check:
    """Every receipt says `recovered`."""
    name = "the receipt says recovered"
    for receipt in receipts_of(evidence):
        if receipt.verdict is not Verdict.RECOVERED:
            wrong = [f"{check.name}: {check.detail}" for check in receipt.checks if not check.passed]
            return failed(name, "; ".join([receipt.verdict.value, *wrong]), SUBMIT)
    lost = receipts_of(evidence)[-1].lost_epochs
    return passed(name, f"{lost} epochs were trained twice")


def same_weights(evidence: Evidence) -> Check:
    """The weights at the end are those of the same training undisturbed."""
    name = "the weights are those of an undisturbed run"
    control = receipts_of(evidence)[-1].control
    if not control:
        return failed(name, "it was not compared", "make the receipt with control=True")
    hint = "leave seed and number of workers as they are"
    return answer(control.weights == "equal", name, control.detail, hint)


LESSON = Lesson(
    number=10,
    name="two-teams",
    title="Two teams",
    notebook="10-two-teams.ipynb",
    minutes=20,
    in_class=False,
    checks=(
        borrowed,
        got_back,
        resumed,
        ended_well,
        on_receipt("blue gave way to red", gave_way),
        on_receipt("the receipt says recovered", proven),
        on_receipt("the weights are those of an undisturbed run", same_weights),
    ),
    seconds=1800.0,
)
