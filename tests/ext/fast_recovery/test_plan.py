"""The plan of a climb: order of the rungs, number of labs, time left."""

from __future__ import annotations

import pytest

from lab.ext.fast_recovery.ladder import FAULTS, RUNGS
from lab.ext.fast_recovery.ladder.plan import (
    BOOT_SECONDS,
    EPOCHS,
    USUAL_SECONDS,
    Climb,
    Pace,
    about,
    in_order,
    labs,
    seconds_of,
    seconds_with_labs,
)
from lab.ext.fast_recovery.ladder.training import CHECKPOINTS, EACH_STEP, SAVE_EVERY

STOCK, FORKED, TORCHFT = RUNGS[0], RUNGS[2], RUNGS[-1]


def names(climbs: tuple[Climb, ...]) -> list[str]:
    return [f"{climb.rung.name} {climb.run}" for climb in climbs]


def test_rungs_are_climbed_from_below_and_only_stock_ray_needs_a_lab_of_its_own() -> None:
    climbs = in_order(RUNGS, 1)
    assert [climb.rung for climb in climbs] == list(RUNGS)
    assert [len(lab) for lab in labs(climbs)] == [1, len(RUNGS) - 1]


def test_every_second_run_begins_in_the_lab_of_the_one_before() -> None:
    climbs = in_order((STOCK, FORKED, TORCHFT), 3)
    assert [names(lab) for lab in labs(climbs)] == [
        ["stock 1"],
        ["forked 1", "torchft 1", "forked 2", "torchft 2"],
        ["stock 2", "stock 3"],
        ["forked 3", "torchft 3"],
    ]


@pytest.mark.parametrize(("runs", "number"), [(1, 2), (2, 3), (5, 6)])
def test_there_is_one_lab_more_than_runs(runs: int, number: int) -> None:
    assert len(labs(in_order(RUNGS, runs))) == number


def test_rungs_of_one_kind_need_one_lab_however_often_they_are_climbed() -> None:
    assert len(labs(in_order((FORKED, TORCHFT), 7))) == 1
    assert len(labs(in_order((STOCK,), 7))) == 1


def test_nothing_to_climb_needs_no_lab() -> None:
    assert labs(in_order((), 3)) == ()


def test_every_fault_has_a_training_that_outlasts_its_loss() -> None:
    assert tuple(EPOCHS) == FAULTS
    assert all(epochs >= (CHECKPOINTS + 2) * SAVE_EVERY for epochs in EPOCHS.values())


def test_a_longer_training_takes_longer() -> None:
    climbs = in_order(RUNGS, 1)
    assert seconds_of(climbs, "kill") > seconds_of(climbs, "rank-kill")
    assert seconds_of((), "kill") == 0


def test_a_lab_of_stock_ray_takes_longer_to_start() -> None:
    stock, ours = labs(in_order((STOCK, FORKED), 1))
    both = seconds_with_labs((stock, ours), "kill")
    assert both == pytest.approx(seconds_of((*stock, *ours), "kill") + sum(BOOT_SECONDS.values()))
    assert seconds_with_labs((), "kill") == 0
    assert BOOT_SECONDS[True] > BOOT_SECONDS[False]


def test_time_left_is_as_planned_until_this_machine_has_shown_its_pace() -> None:
    pace = Pace()
    assert pace.left(240.0) == 240.0
    pace.took(USUAL_SECONDS, 3 * USUAL_SECONDS)
    assert pace.left(100.0) == pytest.approx(200.0)  # a first lab that starts slowly is half of what is known
    pace.took(100 * USUAL_SECONDS, 300 * USUAL_SECONDS)
    assert pace.left(100.0) == pytest.approx(300.0, rel=0.02)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "less than a minute left"),
        (29.0, "less than a minute left"),
        (31.0, "about 1 minute left"),
        (240.0, "about 4 minutes left"),
        (779.0, "about 13 minutes left"),
    ],
)
def test_time_left_is_said_in_minutes(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_every_step_is_asked_for_by_the_variable_that_nodes_read() -> None:
    import raylab_steps as steps

    assert steps.EACH_STEP == EACH_STEP
