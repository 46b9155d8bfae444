"""A plan: the same for the same seed, every kind in each round, and what makes no sense refused."""

from __future__ import annotations

from itertools import islice

import pytest

from lab.errors import LabError, NotFoundError, RefusedError, UsageError
from lab.ext.chaos.plan import Plan, Step, check_step
from lab.faults import FAULTS, Scope
from lab.faults.kinds.kill import Kill
from tests.unit.faults.test_own import EXAMPLE, NAME, Drop

KINDS = ("kill", "pause", "stop", "rank-kill")


def first(plan: Plan, number: int = 40) -> list[Step]:
    return list(islice(plan.steps(), number))


def test_the_same_seed_gives_the_same_steps() -> None:
    assert first(Plan(KINDS, seed=7)) == first(Plan(KINDS, seed=7))


def test_another_seed_gives_others() -> None:
    assert first(Plan(KINDS, seed=7)) != first(Plan(KINDS, seed=8))


def test_what_comes_from_a_seed_stays_the_same_in_every_version() -> None:
    drawn = [(step.kind, round(step.share, 3)) for step in first(Plan(KINDS, seed=7), 4)]
    assert drawn == [("rank-kill", 0.651), ("pause", 0.072), ("kill", 0.536), ("stop", 0.366)]


def test_every_kind_comes_once_in_each_round() -> None:
    kinds = [step.kind for step in first(Plan(KINDS, seed=3))]
    rounds = [kinds[i : i + 4] for i in range(0, 40, 4)]
    assert all(sorted(faults) == sorted(KINDS) for faults in rounds)
    assert len({tuple(faults) for faults in rounds}) > 1


def test_the_faults_come_at_even_distances() -> None:
    assert [step.at for step in first(Plan(KINDS, every=12.5), 4)] == [12.5, 25.0, 37.5, 50.0]


def test_any_rank_can_be_hit() -> None:
    shares = [step.share for step in first(Plan(KINDS), 200)]
    assert all(0 <= share < 1 for share in shares)
    assert 0.4 < sum(share < 0.5 for share in shares) / 200 < 0.6


def test_a_plan_ends_after_so_many_faults_or_so_long() -> None:
    assert len(list(Plan(KINDS, limit=3).steps())) == 3
    assert [s.at for s in Plan(KINDS, every=10, seconds=25).steps()] == [10, 20]


def test_steps_that_were_written_down_are_followed() -> None:
    steps = (Step(1.0, "kill"), Step(2.0, "stop"), Step(9.0, "kill"))
    assert tuple(Plan(written=steps).steps()) == steps
    assert tuple(Plan(written=steps, limit=2).steps()) == steps[:2]
    assert tuple(Plan(written=steps, seconds=5).steps()) == steps[:2]


def test_each_kind_gets_its_parameters() -> None:
    plan = Plan(("pause", "kill"), parameters={"pause": {"for": 4}})
    assert {step.kind: dict(step.parameters) for step in first(plan, 2)} == {"pause": {"for": 4}, "kill": {}}


@pytest.mark.parametrize(
    ("kinds", "options", "error", "message"),
    [
        ((), {}, UsageError, "no fault to draw from"),
        (("kill", "voodoo"), {}, NotFoundError, "there is no fault 'voodoo'"),
        (("kill",), {"every": 0}, UsageError, "every 0 s"),
        (("kill",), {"parameters": {"kill": {"speed": 1}}}, UsageError, "kill has no parameter 'speed'"),
        (("pause",), {"parameters": {"pause": {"for": 1e6}}}, UsageError, "for=1e"),
        (("kill",), {"parameters": {"pause": {"for": 1}}}, UsageError, "pause is not among the faults"),
    ],
)
def test_what_makes_no_sense_is_refused(
    kinds: tuple[str, ...], options: dict[str, object], error: type[LabError], message: str
) -> None:
    with pytest.raises(error, match=message):
        Plan(kinds, **options)  # type: ignore[arg-type]


def test_a_fault_that_acts_at_an_epoch_needs_none_named() -> None:
    (step,) = first(Plan(("nan-at-epoch",), limit=1))
    assert step.parameters == {}


def test_a_fault_of_the_whole_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    class Cluster(Kill):
        kind = dataclasses.replace(Kill.kind, name="head-kill", scope=Scope.CLUSTER)

    monkeypatch.setitem(FAULTS, "head-kill", Cluster)
    with pytest.raises(RefusedError, match="head-kill ends the job"):
        Plan(("kill", "head-kill"))


def test_a_fault_of_ones_own_can_be_drawn(drop: Drop) -> None:
    drop(EXAMPLE)
    check_step(Step(0.0, NAME, parameters={"grace": 3.0}))
