"""The catalogue of faults: what each says of itself."""

from __future__ import annotations

import pytest

from lab.api.receipt import FaultDocument
from lab.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from lab.faults import (
    FAULTS,
    Expected,
    FaultKind,
    Parameter,
    RankProcess,
    Scene,
    Scope,
    Traits,
    catalogue,
    effect_of,
    find_fault,
    rank_on_target,
)
from lab.runtime.base import Feature
from lab.services import HEAD, QUEUE, STORE
from tests.conftest import ROOT
from tests.fakes import FakeRuntime

KINDS = ROOT / "lab" / "faults" / "kinds"


def test_an_unknown_fault_lists_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="there is no fault 'Kill'") as caught:
        find_fault("Kill")
    assert caught.value.hint == "known: " + ", ".join(FAULTS)


def test_every_fault_is_in_the_catalogue_under_its_own_name_and_tells_its_revert() -> None:
    assert [kind.name for kind in catalogue()] == list(FAULTS)
    assert all(kind.summary and kind.revert and kind.expected.text for kind in catalogue())
    assert all(p.unit and p.summary for kind in catalogue() for p in kind.parameters)


def test_defaults_lie_within_their_bounds() -> None:
    for kind in catalogue():
        required = {p.name: p.low for p in kind.parameters if p.required}
        assert kind.settle({**required}) is not None
        for name, value in kind.settle(required).items():
            next(p for p in kind.parameters if p.name == name).check(value)


KIND = FaultKind(
    name="x",
    summary="does x",
    scope=Scope.NODE,
    parameters=(
        Parameter("for", "s", "how long", 10.0, 0.1, 60),
        Parameter("epoch", "epoch", "when", required=True),
    ),
    revert="undone",
    expected=Expected.NODE_LOST,
    traits=Traits("was hit"),
    needs=(Feature.NETWORK,),
)


def test_parameters_are_settled_with_their_defaults() -> None:
    assert KIND.settle({"epoch": 3}) == {"for": 10.0, "epoch": 3}
    assert KIND.settle({"epoch": 3, "for": 1}) == {"for": 1, "epoch": 3}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "x needs a value for epoch"),
        ({"epoch": 1, "loss": 2}, "x has no parameter 'loss'"),
        ({"epoch": 1, "for": 61}, "for=61: must be between 0.1 and 60 s"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        KIND.settle(given)


def test_the_lowest_rank_on_the_target_is_hit_unless_one_is_named() -> None:
    ranks = (RankProcess(2, "w", 12), RankProcess(1, "w", 11))
    runtime = FakeRuntime("raylab")
    assert rank_on_target(Scene(runtime, "w", ranks=ranks)).rank == 1
    assert rank_on_target(Scene(runtime, "w", ranks=ranks, parameters={"rank": 2})).pid == 12
    with pytest.raises(RefusedError, match="w runs no rank 3"):
        rank_on_target(Scene(runtime, "w", ranks=ranks, parameters={"rank": 3}))


def test_a_fault_is_refused_where_a_node_lacks_what_it_needs() -> None:
    class Poor(FakeRuntime):
        def missing(self, feature: Feature) -> str:
            return f"no {feature.value} here"

    class Needy(type(find_fault("kill"))):  # type: ignore[misc]
        kind = KIND

    with pytest.raises(UnsupportedError, match="no network here"):
        Needy().refuse(Scene(Poor("raylab"), "w"))


@pytest.mark.parametrize(
    ("kind", "said", "effect"),
    [
        ("pause", "", "was frozen"),
        ("their-own", "", "was hit by 'their-own'"),
        ("pause", "was put to sleep", "was put to sleep"),
    ],
)
def test_a_receipt_of_an_earlier_lab_says_nothing_of_the_effect(kind: str, said: str, effect: str) -> None:
    fault = FaultDocument(kind=kind, target="w", effect=said, at=1.0, reverted_at=None, parameters={})
    assert effect_of(fault) == effect


def test_faults_are_in_the_order_of_their_scopes() -> None:
    kinds = [find_fault(name).kind for name in FAULTS]
    order = [(list(Scope).index(kind.scope), kind.name) for kind in kinds]
    assert order == sorted(order)
    files = (*KINDS.glob("*.py"), *ROOT.glob("lab/ext/*/faults.py"))
    assert sum(path.read_text().count("\n    kind = ") for path in files) == len(kinds)


@pytest.mark.parametrize("scope", Scope)
def test_a_scope_has_one_target_or_a_worker(scope: Scope) -> None:
    assert (scope.target == "") is (scope in (Scope.NODE, Scope.RANK))
    assert scope.target in ("", HEAD, STORE, QUEUE)
