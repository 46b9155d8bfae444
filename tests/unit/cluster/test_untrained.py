"""Jobs that succeeded and trained nothing, told from those that trained."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.cluster.jobs import Job
from lab.errors import StoreError
from tests.unit.flows.world import Drill, Training

OLD, NEW = "job-old", "job-new"


@pytest.fixture
def again() -> Drill:
    """A lab in which one job trained five epochs, and another one went on with its run."""
    world = Drill()
    old = Training(world, epochs=5, job=OLD, name="done5")
    while not world.jobs.get(OLD).final:
        world.clock.sleep(0.5)
    world.jobs.add(Job(NEW, "SUCCEEDED"))
    world.write("run_started", NEW, run="done5")
    world.write(
        "attempt_started", NEW, run="done5", attempt=1, workers=[{"rank": 0, "node_id": "n", "pid": 1}]
    )
    world.write("get_checkpoint", NEW, run="done5", attempt=1, rank=0, uri=old.uri(5))
    return world


def ended(world: Drill, **fields: object) -> str:
    """The cause of the newer job, once its run has ended."""
    world.write("run_finished", NEW, run="done5", attempt=1, **fields)
    explanation = world.lab.why_failed(world.jobs.get(NEW))
    return explanation.summary if explanation else ""


def test_a_job_whose_run_had_ended_says_so_with_the_epoch_and_the_job_that_trained(again: Drill) -> None:
    assert ended(again) == "trained nothing: the run done5 had ended at epoch 5 (job job-old)"


@pytest.mark.parametrize(
    "happens",
    [
        lambda w: w.write("report", NEW, run="done5", attempt=1, rank=0, metrics={"epoch": 6}),
        lambda w: w.write("state_begun", NEW, run="done5", attempt=1, rank=0, gradients=True),
        lambda w: w.write("run_started", NEW, run="other"),
    ],
)
def test_a_job_that_trained_or_may_have_is_not_accused(
    again: Drill, happens: Callable[[Drill], None]
) -> None:
    happens(again)
    assert ended(again) == ""


def test_a_run_that_failed_or_was_given_no_checkpoint_is_not_meant(again: Drill) -> None:
    assert ended(again, error="no") == ""
    world = again
    world.jobs.add(Job("job-3", "SUCCEEDED"))
    for event in ("run_started", "run_finished"):
        world.write(event, "job-3", run="quiet", attempt=1)
    assert world.lab.why_failed(world.jobs.get("job-3")) is None
    world.jobs.add(Job("job-4", "SUCCEEDED"))
    assert world.lab.why_failed(world.jobs.get("job-4")) is None, "it has no ledger"


def test_a_store_that_is_out_of_reach_leaves_it_unknown(again: Drill) -> None:
    ended(again)
    again.store.failure = StoreError("no")
    again.lab._ledgers.clear()
    assert again.lab.why_failed(again.jobs.get(NEW)) is None
