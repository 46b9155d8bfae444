"""Faults that a labctl has left behind which died."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import RefusedError, ServiceError
from lab.flows.recovery.heal import heal
from lab.runtime.active_faults import (
    ActiveFault,
    ActiveFaults,
    left_undone,
    myself,
    process_lives,
)
from lab.services import STORE
from lab.topology import LabSpec, State
from tests.unit.flows.world import JOB, W0, W1, Drill, Training

DEAD = (2**22 + 7, 1.0)
"""No process has such an id on Linux, where the limit is 2**22."""


def left(world: Drill, kind: str = "pause", target: str = W0, at: float = 5.0) -> ActiveFaults:
    journal = ActiveFaults(world.runtime.folder())
    journal.keep(ActiveFault(kind, target, JOB, at, *DEAD))
    return journal


def test_a_fault_that_was_left_is_undone_and_recorded(world: Drill) -> None:
    world.runtime.pause(W0)
    journal = left(world)
    begun: list[ActiveFault] = []

    (healed,) = heal(world.lab, begun.append, clock=world.clock)

    assert (healed.kind, healed.target, healed.problem) == ("pause", W0, "")
    assert world.healthy()
    assert journal.lasting() == ()
    assert [entry.kind for entry in begun] == ["pause"]
    assert world.store.list(".raylab/faults/")


def test_a_fault_of_a_labctl_that_lives_is_left_alone(world: Drill) -> None:
    world.runtime.pause(W0)
    ActiveFaults(world.runtime.folder()).keep(ActiveFault("pause", W0, JOB, 5.0, *myself()))

    assert heal(world.lab) == ()
    assert left_undone(world.runtime, world.runtime.status()).faults == ()
    status = world.runtime.status().service(W0)
    assert status is not None
    assert status.state is State.PAUSED


def test_a_service_that_ended_by_itself_is_told_from_one_that_a_fault_has_ended(world: Drill) -> None:
    world.runtime.kill(W0)
    world.runtime.kill(W1)
    left(world, "kill")

    assert left_undone(world.runtime, world.runtime.status()).ended == (W1,)


def test_a_fault_that_cannot_be_undone_stays_in_the_journal(world: Drill) -> None:
    world.runtime.kill(W0)
    left(world, "kill")
    world.host.failures["raylab", W0] = ServiceError("it does not start")

    (healed,) = heal(world.lab, clock=world.clock)

    assert healed.problem == "it does not start"
    assert len(left_undone(world.runtime, world.runtime.status()).faults) == 1


def test_in_a_lab_that_is_down_there_is_nothing_to_undo(world: Drill) -> None:
    left(world)
    world.runtime.down()
    assert heal(world.lab) == ()
    assert left_undone(world.runtime, world.runtime.status()).faults == ()


def test_down_forgets_what_was_left(world: Drill) -> None:
    left(world)
    world.lab.down()
    assert left_undone(world.runtime, world.runtime.status()).faults == ()


KEY, KEPT = "run/checkpoint_2/model.pt", ".raylab/kept/j1/checkpoint_2"


def deleted_checkpoint(world: Drill) -> None:
    """A labctl died after it had copied a checkpoint's file and deleted it."""
    world.store.put(f"{KEPT}/0", b"weights")
    uri = "s3://ray/run/checkpoint_2"
    memo = {"damaged": [uri], "bucket": "ray", "kept": KEPT, "keys": [KEY], "becomes": [""]}
    journal = ActiveFaults(world.runtime.folder())
    journal.keep(ActiveFault("checkpoint-delete", STORE, JOB, 7.0, *DEAD, memo=memo))


def test_a_damaged_checkpoint_outlives_down_and_is_put_back_after_up(world: Drill) -> None:
    deleted_checkpoint(world)
    left(world)
    begun: list[ActiveFault] = []

    world.lab.down()
    (put_back,) = heal(world.lab, begun.append, clock=world.clock)

    assert (put_back.kind, put_back.target) == ("checkpoint-delete", STORE)
    assert put_back.problem == "lab raylab is down, start it first: `labctl up`"
    assert begun == []
    assert [entry.kind for entry in left_undone(world.runtime, world.runtime.status()).faults] == [
        "checkpoint-delete"
    ]

    world.lab.up(LabSpec(workers=2))
    (healed,) = heal(world.lab, begun.append, clock=world.clock)

    assert healed.problem == ""
    assert world.store.get(KEY) == b"weights"
    assert not world.store.list(KEPT)
    assert left_undone(world.runtime, world.runtime.status()).faults == ()


def test_a_damaged_checkpoint_is_not_forgotten_by_heal_after_the_lab_went_down_by_itself(
    world: Drill,
) -> None:
    deleted_checkpoint(world)
    left(world)
    world.runtime.down()

    assert [healed.kind for healed in heal(world.lab)] == ["checkpoint-delete"]
    assert [entry.kind for entry in left_undone(world.runtime, world.runtime.status()).faults] == [
        "checkpoint-delete"
    ]


def test_a_damaged_checkpoint_is_forgotten_with_all_objects(world: Drill) -> None:
    deleted_checkpoint(world)
    world.lab.down(volumes=True)
    assert left_undone(world.runtime, world.runtime.status()).faults == ()


def test_a_checkpoint_fault_that_had_damaged_nothing_yet_is_forgotten_with_the_lab(world: Drill) -> None:
    journal = ActiveFaults(world.runtime.folder())
    journal.keep(ActiveFault("checkpoint-delete", STORE, JOB, 7.0, *DEAD, memo={"rank": [W0, 11]}))
    world.lab.down()
    assert journal.lasting() == ()


def test_the_newest_fault_is_undone_first(world: Drill) -> None:
    left(world, "kill", W0, 1.0)
    left(world, "kill", W1, 2.0)
    assert [healed.target for healed in heal(world.lab, clock=world.clock)] == [W1, W0]


def test_a_second_fault_on_the_same_target_is_refused(world: Drill) -> None:
    Training(world)
    left(world)
    with pytest.raises(RefusedError, match="fault pause") as caught:
        world.inject(W0)
    assert "labctl heal" in caught.value.hint
    ActiveFaults(world.runtime.folder()).clear()
    ActiveFaults(world.runtime.folder()).keep(ActiveFault("pause", W0, JOB, 5.0, *myself()))
    with pytest.raises(RefusedError, match="of another labctl"):
        world.inject(W0)


def test_a_fault_is_in_the_journal_while_it_lasts_and_gone_after(world: Drill) -> None:
    Training(world)
    journal = ActiveFaults(world.runtime.folder())
    seen = []
    world.inject(after_epoch=2, on_moment=lambda moment: seen.append((moment.key, journal.lasting())))
    assert all(entries for key, entries in seen if key in ("fault", "node_dead"))
    assert journal.lasting() == ()


def test_files_that_are_no_entries_are_passed_over(tmp_path: Path) -> None:
    journal = ActiveFaults(tmp_path)
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "1-x.json").write_text("{")
    (tmp_path / "faults" / "2-x.json").write_text('{"kind": 1}')
    assert journal.lasting() == ()


def test_a_process_is_known_by_its_start_too() -> None:
    pid, started = myself()
    assert process_lives(pid, started)
    assert not process_lives(pid, started - 100)
    assert not process_lives(*DEAD)
