"""Lesson 10: two teams share a cohort; one borrows a GPU, gives it back, and resumes from its checkpoint."""

from __future__ import annotations

from functools import partial

from lab.api.receipt import Verdict
from lab.cluster.jobs import Job
from lab.ext.course.lessons.catalogue import training
from lab.ext.course.lessons.catalogue.training import (
    attempt_of,
    gpus_of,
    receipt_of,
    run_of,
    says,
    succeeded,
)
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, check, holds, need
from lab.services import is_worker

BORROW, RECLAIM = "borrow", "reclaim"
"""Parts of the lesson: the job of the team that borrows, and that of the team that takes its own back."""

BLUE, RED = "alice/blue", "bob/red"
"""Their LocalQueues, as the example `two-teams` makes them."""

RANKS = 2
RECLAIMED = "InCohortReclamation"

FAULT = "preemption"
"""Kind of the receipts that the notebook makes once both jobs have ended."""

asks = partial(training.asks, BORROW, FAULT)


def queue_of(job: Job) -> str:
    """The LocalQueue that the job came from."""
    return job.metadata.get("raylab_queue") or "no queue"


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


@check("blue gave way to red", f"{SUBMIT}, with nothing else in the queues")
def gave_way(evidence: Evidence) -> str:
    """The receipt names red's job, and the reason with which a cohort takes back what was borrowed."""
    preemption = need(receipt_of(evidence, BORROW, FAULT).preemption, "the receipt names no preemption")
    wanted = f"{RED.partition('/')[0]}/{evidence.submitted(RECLAIM).submission_id}"
    ok = preemption.by == wanted and preemption.reason == RECLAIMED
    return holds(ok, f"{preemption.reason}, for {preemption.by}")


@check("the weights are those of an undisturbed run", "leave seed and number of workers as they are")
def same_weights(evidence: Evidence) -> str:
    control = receipt_of(evidence, BORROW, FAULT).control
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
        asks(
            "resumed",
            "blue resumed from its newest checkpoint",
            "the script must load what get_checkpoint() gives",
        ),
        asks("finished", "blue's training came to its end", "wait for it, or read its log"),
        gave_way,
        says(BORROW, FAULT, Verdict.RECOVERED, "the receipt says recovered"),
        same_weights,
    ),
    seconds=1800.0,
)
