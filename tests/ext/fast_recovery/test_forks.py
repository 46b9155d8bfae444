"""What the lab adds to the fork server: its variables, its modules, its switch."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import raylab_forks as forks

from forkserver import launcher, modules, scripts
from forkserver.refusal import differing
from lab.cluster.submission import RESUME_VARIABLE
from lab.daemons.gateway.submission import variables
from lab.daemons.queue.effects import GRANTED
from lab.host import descent
from lab.people.policy import Role
from lab.people.registry import Person
from lab.topology import Credentials
from raylab_faults import rank


@pytest.mark.parametrize(
    ("off", "why"),
    [
        ("elastic", ""),
        ("elastic, forks", "another RAYLAB_PATCHES_OFF"),
        ("accelerator", "another RAYLAB_PATCHES_OFF"),
    ],
)
def test_a_job_that_switches_off_what_the_server_has_done_already_is_not_forked(off: str, why: str) -> None:
    wanted = {"RAYLAB_PATCHES_OFF": off}
    assert forks.application().doubt(wanted, {"HOME": "/home"}) == why
    assert forks.application().doubt(wanted, wanted) == ""


def test_a_job_of_a_person_of_a_class_is_forked() -> None:
    ann = Person("ann", Role.STUDENT, "0" * 64, 0.0, 0.0, Credentials("ann", "secret"))
    assert differing(variables(ann), {}, application=forks.application()) == ""


def test_a_lab_imports_what_its_own_ranks_were_seen_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYLAB_FORK_LEARNT", "/imports.json")
    own = forks.application()
    assert own.learnt == "/imports.json"
    assert "raylab_ledger.train" in own.modules
    assert not [name for name in modules.TRAIN if name.startswith("raylab_")]


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    folders: list[str] = []
    monkeypatch.setattr(scripts, "hand_over", folders.append)
    monkeypatch.setenv("RAYLAB_FORK_FOLDER", "/forks")
    monkeypatch.delenv("RAYLAB_PATCHES_OFF", raising=False)
    return folders


def test_a_process_of_a_node_asks_that_nodes_server_for_a_fork(handed: list[str]) -> None:
    forks.hand_over()
    assert handed == ["/forks"]


def test_a_job_that_wants_none_and_a_process_outside_of_a_node_do_not(
    handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLAB_PATCHES_OFF", "forks")
    forks.hand_over()
    monkeypatch.delenv("RAYLAB_PATCHES_OFF")
    monkeypatch.delenv("RAYLAB_FORK_FOLDER")
    forks.hand_over()
    assert handed == []


@pytest.mark.parametrize(("off", "followed"), [("forks", False), ("elastic", True)])
def test_psutil_follows_forks_only_while_the_patch_is_on(
    handed: list[str], monkeypatch: pytest.MonkeyPatch, off: str, followed: bool
) -> None:
    psutil: Any = SimpleNamespace(_ppid_map=dict)
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setenv("RAYLAB_PATCHES_OFF", off)
    forks.follow()
    assert hasattr(psutil._ppid_map, "forkserver") == followed


def test_what_the_queues_tell_a_job_does_not_keep_it_from_being_forked() -> None:
    assert {GRANTED, RESUME_VARIABLE} <= forks.READ_LATER


def test_recording_every_step_does_not_keep_a_job_from_being_forked() -> None:
    import raylab_steps as steps

    assert steps.EACH_STEP in forks.READ_LATER


def test_a_process_that_stands_for_a_fork_is_known_by_the_same_name_everywhere() -> None:
    assert (rank.STAND_IN, descent.FORK) == (launcher.NAME, launcher.NAME)
