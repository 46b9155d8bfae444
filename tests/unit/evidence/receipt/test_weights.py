"""Whether training went on with the weights of its checkpoint, where that is hard to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.evidence.ledger import Event
from lab.evidence.receipt import Receipt, judge
from tests.unit.data.stories import Story, evidence, tensors

OTHERS = ("a reference model", "another one")


def receipt(begun: Sequence[str], held: Sequence[str], at: float = 10.3, **story: Any) -> Receipt:
    """A receipt on a training that goes on with `begun`, told at `at`, from a checkpoint with `held`.

    The checkpoint is loaded at 10.2.
    """

    def mended(event: Event) -> Event:
        if event.event == "checkpoint_loaded":
            return replace(event, fields={**event.fields, "tensors": list(held)})
        if event.event == "weights" and event.attempt == 2:
            return replace(event, at=at, fields={"tensors": list(begun)})
        return event

    return judge(evidence(events=tuple(map(mended, Story(**story).events()))))


def test_a_checkpoint_that_holds_the_first_weights_as_well_does_not_prove_that_it_was_taken() -> None:
    forgot = receipt(tensors(0), [*tensors(3), *tensors(0)])
    assert forgot.verdict.value == "not-verified"
    assert "which the checkpoint holds as well" in forgot.reason


def test_one_that_holds_some_of_the_first_weights_shows_that_it_was_forgotten() -> None:
    assert receipt(tensors(0), [*tensors(3), tensors(0)[0]]).verdict.value == "failed"


def test_a_parameter_that_training_leaves_alone_is_no_sign_of_a_new_beginning() -> None:
    begun = [tensors(3)[0], tensors(0)[1]]
    assert receipt(begun, [*begun, *OTHERS]).verdict.value == "recovered"


@pytest.mark.parametrize(("at", "verdict"), [(10.15, "not-verified"), (10.3, "failed")])
def test_a_step_before_the_checkpoint_is_loaded_says_nothing_of_what_training_went_on_with(
    at: float, verdict: str
) -> None:
    assert receipt(tensors(0), tensors(3), at).verdict.value == verdict


def test_a_rank_that_is_given_its_state_may_have_stepped_before_the_other_one_loaded_it() -> None:
    given = receipt(tensors(0), tensors(3), 10.15, nodes=(("a", "b"), ("b", "a2")), loads=(3,))
    assert given.verdict.value == "not-verified"


NO_MORE, MORE, OTHERS_DIFFER = (10, 20), (13, 23), (10, 21)
"""Steps of an optimizer by each report of the second attempt; those of the first one are ten apart."""


@pytest.mark.parametrize("nodes", [(("a",), ("b",)), (("a", "b"), ("b", "a2"))])
@pytest.mark.parametrize(
    ("second", "at", "verdict"),
    [
        (NO_MORE, 10.15, "failed"),
        (NO_MORE, 10.3, "failed"),
        (MORE, 10.15, "not-verified"),
        (MORE, 10.3, "not-verified"),
        (OTHERS_DIFFER, 10.15, "not-verified"),
        (OTHERS_DIFFER, 10.3, "failed"),
    ],
)
def test_the_number_of_its_steps_tells_whether_a_rank_may_have_warmed_up_before_it_had_its_weights(
    nodes: tuple[tuple[str, ...], ...], second: tuple[int, int], at: float, verdict: str
) -> None:
    counted = ((10, 20, 30), second)
    begun = receipt(tensors(0), tensors(3), at, nodes=nodes, loads=(3,), counted=counted)
    assert begun.verdict.value == verdict


@pytest.mark.parametrize("at", [10.15, 10.3])
@pytest.mark.parametrize("loads", [(3,), ()])
def test_a_model_without_trees_may_be_another_one_than_that_which_goes_on(
    at: float, loads: tuple[int, ...]
) -> None:
    without = receipt((), tensors(3), at, loads=loads)
    assert without.verdict.value == "not-verified"
    assert any("begun a model without trees" in check.detail for check in without.checks)
