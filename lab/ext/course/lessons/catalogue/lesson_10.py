"""Lesson 10: two teams share a cohort; one borrows a GPU, gives it back, and resumes from its checkpoint."""

from __future__ import annotations

from lab.api.receipt import ReceiptDocument, Verdict
from lab.cluster.jobs import Job
from lab.ext.course.lessons.catalogue.training import attempt_of, gpus_of, run_of, succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, check, holds, need
from lab.services import is_worker

BORROW, RECLAIM = "borrow", "reclaim"
"""Parts of the lesson: the job of the team that borrows, and that of the team that takes its own back."""

BLUE, RED = "alice/blue", "bob/red"
"""Their LocalQueues, as the example `two-teams` makes them."""

RANKS = 2
RECLAIMED = "InCohortReclamation"


def queue_of(job: Job) -> str:
    """The LocalQueue that the job came from."""
    return job.metadata.get("raylab_queue") or "no queue"


def turns(evidence: Evidence) -> tuple[Job, ...]:
    """The attempts of the borrower in order: its job, and those that went on with it."""
    first = evidence.submitted(BORROW)
    begin = f"{first.submission_id}-"
    later = {
        int(number): job
        for job in evidence.jobs
        if job.submission_id.startswith(begin) and (number := job.submission_id[len(begin) :]).isdigit()
    }
    return (first, *(later[number] for number in sorted(later)))


@check("blue borrowed red's GPU", f"{SUBMIT}: {RANKS} workers with a GPU each, queue {BLUE}")
def borrowed(evidence: Evidence) -> str:
    """The job of team blue came from its queue, and trained on the GPUs of both teams."""
    queue, nodes = queue_of(evidence.submitted(BORROW)), attempt_of(evidence, BORROW).nodes
    gpus = gpus_of(run_of(evidence, BORROW))
    places = {service for node in nodes.values() if is_worker(service := evidence.service_of(node))}
    ok = queue == BLUE and len(places) == len(nodes) == RANKS and gpus >= 1
    return holds(ok, f"{len(places)} workers, {gpus:g} GPU each, from {queue}")


@check("red got its GPU back", f"{SUBMIT}: a GPU, queue {RED}")
def got_back(evidence: Evidence) -> str:
    """The job of team red came from its queue, asked for a GPU, and succeeded."""
    succeeded(RECLAIM).look(evidence)
    queue, gpus = queue_of(evidence.submitted(RECLAIM)), evidence.demand(RECLAIM).get("GPU", 0)
    return holds(queue == RED and gpus >= 1, f"{gpus:g} GPU from {queue}")


@check("blue resumed from its newest checkpoint", "the script must load what get_checkpoint() gives")
def resumed(evidence: Evidence) -> str:
    """The borrower's next attempt loaded the newest checkpoint of the one before, and trained from there."""
    attempts = turns(evidence)
    holds(len(attempts) > 1, "blue was not admitted a second time", f"{SUBMIT}, and wait for both jobs")
    runs = [evidence.histories[job.submission_id].runs for job in attempts[:2]]
    lack = "there is no checkpoint, or nothing trained after it"
    holds(all(runs) and bool(runs[0][-1].checkpoints), lack, SUBMIT)
    newest = runs[0][-1].checkpoints[-1]
    trained = ((attempt, attempt.first) for attempt in runs[1][0].attempts if attempt.first)
    again, first = need(next(trained, None), lack, SUBMIT)
    detail = f"stored: epoch {newest.progress}, first epoch after it: {first.progress}"
    holds(newest.uri in {load.uri for load in again.loads}, f"{detail}; it was not loaded")
    return holds(newest.progress is not None and first.progress == newest.progress + 1, detail)


@check("blue's training came to its end", "wait for it, or read its log")
def ended_well(evidence: Evidence) -> str:
    attempts = turns(evidence)
    detail = ", ".join(f"{job.submission_id} {job.status}" for job in attempts)
    return holds(attempts[-1].status == "SUCCEEDED", detail)


def receipts_of(evidence: Evidence) -> list[ReceiptDocument]:
    """The receipts of the borrower's preemptions, oldest first. Raises NotDoneError where there is none."""
    receipts = [receipt for receipt in evidence.receipts_of(BORROW) if receipt.preemption]
    hint = "run the cell that makes the receipt, once both jobs have ended"
    return need(receipts or None, "there is no receipt of a preemption", hint)


@check("blue gave way to red", f"{SUBMIT}, with nothing else in the queues")
def gave_way(evidence: Evidence) -> str:
    """The receipt names red's job, and the reason with which a cohort takes back what was borrowed."""
    preemption = need(receipts_of(evidence)[0].preemption, "it has no preemption")
    wanted = f"{RED.partition('/')[0]}/{evidence.submitted(RECLAIM).submission_id}"
    ok = preemption.by == wanted and preemption.reason == RECLAIMED
    return holds(ok, f"{preemption.reason}, for {preemption.by}")


@check("the receipt says recovered")
def proven(evidence: Evidence) -> str:
    """Every receipt says `recovered`."""
    receipts = receipts_of(evidence)
    for receipt in receipts:
        wrong = [f"{check.name}: {check.detail}" for check in receipt.checks if not check.passed]
        holds(receipt.verdict is Verdict.RECOVERED, "; ".join([receipt.verdict.value, *wrong]))
    return f"{receipts[-1].lost_epochs} epochs were trained twice"


@check("the weights are those of an undisturbed run", "leave seed and number of workers as they are")
def same_weights(evidence: Evidence) -> str:
    control = receipts_of(evidence)[-1].control
    control = need(control, "it was not compared", "make the receipt with control=True")
    return holds(control.weights == "equal", control.detail)


LESSON = Lesson(
    number=10,
    name="two-teams",
    title="Two teams",
    minutes=20,
    in_class=False,
    checks=(
        borrowed,
        got_back,
        resumed,
        ended_well,
        gave_way,
        proven,
        same_weights,
    ),
    seconds=1800.0,
)
