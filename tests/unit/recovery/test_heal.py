"""Faults that a labctl has left behind which died."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import RefusedError, ServiceError
from lab.recovery.heal import heal, left_behind
from lab.recovery.journal import Entry, Journal, myself, process_lives
from lab.topology import State
from tests.unit.recovery.world import JOB, W0, W1, Training, World

DEAD = (2**22 + 7, 1.0)
"""No process has such an id on Linux, where the limit is 2**22."""


def left(world: World, kind: str = "pause", target: str = W0, at: float = 5.0) -> Journal:
    journal = Journal(world.runtime.folder())
    journal.keep(Entry(kind, target, JOB, at, *DEAD))
    return journal


def test_a_fault_that_was_left_is_undone_and_recorded(world: World) -> None:
    world.runtime.pause(W0)
    journal = left(world)
    begun: list[Entry] = []

    (healed,) = heal(world.lab, begun.append, clock=world.clock)

    assert (healed.kind, healed.target, healed.problem) == ("pause", W0, "")
    assert world.healthy()
    assert journal.lasting() == ()
    assert [entry.kind for entry in begun] == ["pause"]
    assert world.store.list(".raylab/faults/")


def test_a_fault_of_a_labctl_that_lives_is_left_alone(world: World) -> None:
    world.runtime.pause(W0)
    Journal(world.runtime.folder()).keep(Entry("pause", W0, JOB, 5.0, *myself()))

    assert heal(world.lab) == ()
    assert left_behind(world.lab) == ()
    status = world.runtime.status().service(W0)
    assert status is not None
    assert status.state is State.PAUSED


def test_a_fault_that_cannot_be_undone_stays_in_the_journal(world: World) -> None:
    world.runtime.kill(W0)
    left(world, "kill")
    world.host.failures["raylab", W0] = ServiceError("it does not start")

    (healed,) = heal(world.lab, clock=world.clock)

    assert healed.problem == "it does not start"
    assert len(left_behind(world.lab)) == 1


def test_in_a_lab_that_is_down_there_is_nothing_to_undo(world: World) -> None:
    left(world)
    world.runtime.down()
    assert heal(world.lab) == ()
    assert left_behind(world.lab) == ()


def test_down_forgets_what_was_left(world: World) -> None:
    left(world)
    world.lab.down()
    assert left_behind(world.lab) == ()


def test_the_newest_fault_is_undone_first(world: World) -> None:
    left(world, "kill", W0, 1.0)
    left(world, "kill", W1, 2.0)
    assert [healed.target for healed in heal(world.lab, clock=world.clock)] == [W1, W0]


def test_a_second_fault_on_the_same_target_is_refused(world: World) -> None:
    Training(world)
    left(world)
    with pytest.raises(RefusedError, match="still under the fault pause") as caught:
        world.inject(W0)
    assert "labctl heal" in caught.value.hint
    Journal(world.runtime.folder()).clear()
    Journal(world.runtime.folder()).keep(Entry("pause", W0, JOB, 5.0, *myself()))
    with pytest.raises(RefusedError, match="of another labctl"):
        world.inject(W0)


def test_a_fault_is_in_the_journal_while_it_lasts_and_gone_after(world: World) -> None:
    Training(world)
    journal = Journal(world.runtime.folder())
    seen = []
    world.inject(after_epoch=2, on_moment=lambda moment: seen.append((moment.key, journal.lasting())))
    assert all(entries for key, entries in seen if key in ("fault", "node_dead"))
    assert journal.lasting() == ()


def test_files_that_are_no_entries_are_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "1-x.json").write_text("{")
    (tmp_path / "faults" / "2-x.json").write_text('{"kind": 1}')
    assert journal.lasting() == ()


def test_a_process_is_known_by_its_start_too() -> None:
    pid, started = myself()
    assert process_lives(pid, started)
    assert not process_lives(pid, started - 100)
    assert not process_lives(*DEAD)
