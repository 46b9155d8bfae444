"""Whether training went on with the weights of its checkpoint, where that is hard to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lab.evidence.receipt import Receipt, judge
from tests.unit.data.stories import Story, evidence, tensors

OTHERS = ("a reference model", "another one")


def receipt(begun: Sequence[str], held: Sequence[str], at: float = 10.3, **story: Any) -> Receipt:
    """A receipt on a training that goes on with `begun`, told at `at`, from a checkpoint with `held`.

    The checkpoint is loaded at 10.2.
    """
    events = []
    for event in Story(**story).events():
        if event.event == "checkpoint_loaded":
            event = replace(event, fields={**event.fields, "tensors": list(held)})
        if event.event == "weights" and event.attempt == 2:
            event = replace(event, at=at, fields={"tensors": list(begun)})
        events.append(event)
    return judge(evidence(events=tuple(events)))


def test_a_checkpoint_that_holds_the_first_weights_as_well_does_not_prove_that_it_was_taken() -> None:
    forgot = receipt(tensors(0), [*tensors(3), *tensors(0)])
    assert forgot.verdict.value == "not-verified"
    assert "which the checkpoint holds as well" in forgot.reason


def test_one_that_holds_some_of_the_first_weights_shows_that_it_was_forgotten() -> None:
    assert receipt(tensors(0), [*tensors(3), tensors(0)[0]]).verdict.value == "failed"


def test_a_parameter_that_training_leaves_alone_is_no_sign_of_a_new_beginning() -> None:
    begun = [tensors(3)[0], tensors(0)[1]]
    assert receipt(begun, [*begun, *OTHERS]).verdict.value == "recovered"
