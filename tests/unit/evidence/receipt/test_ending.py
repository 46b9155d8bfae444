"""The end of a job: by its plan, by its own early stopping, or by an undisturbed run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.ledger import WithMetrics
from lab.api.receipt import CheckDocument, ReceiptDocument
from lab.evidence.ledger import Event, History, epochs_of, number
from lab.evidence.receipt import judge
from tests.unit.data.stories import Story, event, evidence

ENDED = (1, 2, 3), (4, 5)
FROM_ZERO = (0, 1, 2), (3, 4)


def stopped(attempt: int = 2, *, early: bool = True, at: float = 25.0, rank: int = 0) -> Event:
    """A fit of Lightning that returned."""
    return event("fit_ended", at, attempt, rank, by="Lightning", early=early)


def receipt_of(
    planned: int | None,
    places: tuple[tuple[int, ...], tuple[int, ...]] = ENDED,
    *more: Event,
    control: tuple[Event, ...] | None = None,
    loss: float = 1.0,
) -> ReceiptDocument:
    """The receipt of a job that loaded the right checkpoint and went on, and ended with `places`."""
    config = {} if planned is None else {"total_epochs": planned}
    story = Story(places[0], places[1], config=config, loads=(places[0][-1],), more=more)
    events = tuple(with_loss(e, loss) for e in story.events())
    return judge(evidence(events=events, control=None if control is None else History.of(control)))


def undisturbed(last: int, *more: Event, first: int = 1, loss: float = 1.0) -> tuple[Event, ...]:
    """The ledger of the control run."""
    reports = [event("report", 2 + n, 1, 0, metrics={"epoch": n}) for n in range(first, last + 1)]
    events = (event("run_started", 0, 0), *reports, *more, event("run_finished", 99, 1, error=None))
    return tuple(with_loss(replace(e, job="control"), loss) for e in events)


def with_loss(entry: Event, loss: float) -> Event:
    said = entry.payload
    if not isinstance(said, WithMetrics) or not said.metrics:
        return entry
    metrics = {**said.metrics, "loss": loss / (1 + (number(said.metrics["epoch"]) or 0))}
    return replace(entry, fields={**entry.fields, "metrics": metrics})


def finished(receipt: ReceiptDocument) -> CheckDocument:
    return receipt.checks[0]


# Without a control run


@pytest.mark.parametrize(
    ("planned", "places", "where"),
    [(20, ENDED, "epoch 5 of 20"), (20, FROM_ZERO, "epoch 4 (5 of 20, counted from 0)")],
)
def test_a_job_that_stopped_early_has_ended_by_itself(planned: int, places: Any, where: str) -> None:
    receipt = receipt_of(planned, places, stopped())
    assert receipt.verdict.value == "recovered", receipt
    assert (
        finished(receipt).detail
        == f"the job SUCCEEDED; it ended by itself at {where}: Lightning stopped early"
    )


@pytest.mark.parametrize(
    "more",
    [(), (stopped(early=False),), (stopped(1, at=7.9),), (stopped(at=20), stopped(early=False))],
    ids=["no sign", "a fit that did not stop early", "the lost attempt did", "a fit before the last one did"],
)
def test_fewer_epochs_than_planned_without_a_sign_are_no_proof(more: tuple[Event, ...]) -> None:
    receipt = receipt_of(20, ENDED, *more)
    assert receipt.verdict.value == "not-verified"
    assert not finished(receipt).known
    for words in ("without an error at epoch 5 of 20", "its plan was 20", "--control, decides"):
        assert words in finished(receipt).detail
        assert words in receipt.reason


def test_the_plan_is_reached_in_the_scripts_own_count() -> None:
    receipt = receipt_of(5, FROM_ZERO)
    assert (receipt.verdict.value, finished(receipt).passed) == ("recovered", True)


def test_an_older_ledger_knows_no_early_stopping_and_is_read_all_the_same() -> None:
    run = History.of(Story().events()).runs[0]
    assert [attempt.ended_early for attempt in run.attempts] == ["", ""]


# With one


@pytest.mark.parametrize("planned", [20, None, 5])
def test_as_many_epochs_as_the_undisturbed_run_are_all(planned: int | None) -> None:
    receipt = receipt_of(planned, control=undisturbed(5))
    assert receipt.verdict.value == "recovered", receipt
    assert finished(receipt).detail.endswith(", as the undisturbed run did")


@pytest.mark.parametrize("planned", [20, None, 5])
@pytest.mark.parametrize(("last", "loss"), [(9, 1.0), (9, 2.0), (4, 1.0)])
def test_another_number_of_epochs_than_the_undisturbed_run_is_a_failure(
    planned: int | None, last: int, loss: float
) -> None:
    receipt = receipt_of(planned, control=undisturbed(last, loss=loss))
    assert receipt.verdict.value == "failed"
    assert receipt.reason.startswith("job finished: ")
    assert receipt.reason.endswith(f"the undisturbed run at epoch {last}")


def test_early_stopping_may_decide_otherwise_by_other_metrics() -> None:
    receipt = receipt_of(20, ENDED, stopped(), control=undisturbed(9, stopped(1, at=50), loss=2.0))
    assert receipt.verdict.value == "recovered", receipt
    assert "at epoch 5 of 20, the undisturbed run by itself at epoch 9" in finished(receipt).detail
    assert "metrics that differ" in finished(receipt).detail


def test_by_equal_metrics_it_may_not() -> None:
    receipt = receipt_of(20, ENDED, stopped(), control=undisturbed(9, stopped(1, at=50)))
    assert receipt.verdict.value == "failed"
    assert "with equal metrics until then: what it stops by was not restored" in receipt.reason


@pytest.mark.parametrize("own", [(), (stopped(),)], ids=["plan reached", "stopped early too"])
def test_a_job_that_did_more_than_one_that_stopped_early_did_so_by_other_metrics(
    own: tuple[Event, ...],
) -> None:
    receipt = receipt_of(5, ENDED, *own, control=undisturbed(4, stopped(1, at=50), loss=2.0))
    assert receipt.verdict.value == "recovered", receipt
    assert "the undisturbed run by itself at epoch 4" in finished(receipt).detail
    alike = receipt_of(5, ENDED, *own, control=undisturbed(4, stopped(1, at=50)))
    assert alike.verdict.value == "failed"
    assert "with equal metrics until then: what it stops by was not restored" in alike.reason


def test_as_many_epochs_with_fewer_steps_are_not_all() -> None:
    """As of one that goes on with the next epoch from a checkpoint within one."""

    def stepped(events: tuple[Event, ...], *steps: int) -> tuple[Event, ...]:
        numbers = iter(steps)
        fields = [
            {"metrics": {"epoch": 5, "step": next(numbers)}} if e.event == "report" else {} for e in events
        ]
        return tuple(replace(e, fields={**e.fields, **f}) for e, f in zip(events, fields, strict=True))

    other = History.of(stepped(undisturbed(5), 10, 20, 30, 40, 50))
    for last, fewer in ((45, True), (50, False)):
        check = finished(
            judge(evidence(events=stepped(Story().events(), 10, 20, 30, 35, last), control=other))
        )
        assert check.passed is not fewer
        assert ("but at step 45, the undisturbed run at 50" in check.detail) is fewer


def test_of_several_runs_none_is_compared() -> None:
    two = (*undisturbed(9), *(replace(e, run="other") for e in undisturbed(9)))
    assert receipt_of(5, control=two).verdict.value == "recovered"


def test_a_control_run_that_counts_something_else_decides_nothing() -> None:
    steps = tuple(
        replace(e, fields={"metrics": {"current_epoch": 9}}) if e.event == "report" else e
        for e in undisturbed(2)
    )
    assert receipt_of(5, control=steps).verdict.value == "recovered"


# The count


@pytest.mark.parametrize(
    ("places", "planned", "final", "said"),
    [
        (ENDED, 5, 5, "epoch 5 of 5"),
        (FROM_ZERO, 5, 4, "epoch 4 (5 of 5, counted from 0)"),
        (ENDED, None, None, "epoch 5"),
        (FROM_ZERO, None, None, "epoch 4"),
    ],
)
def test_epochs_are_told_in_the_scripts_own_count(
    places: Any, planned: int | None, final: int | None, said: str
) -> None:
    config = {} if planned is None else {"epochs": planned}
    epochs = epochs_of(History.of(Story(places[0], places[1], config=config).events()).runs[0])
    assert epochs is not None
    assert epochs.last is not None
    assert (epochs.final, epochs.position(epochs.last)) == (final, said)


def test_a_run_that_counts_steps_has_no_epochs() -> None:
    assert epochs_of(History.of(Story(key="step").events()).runs[0]) is None
