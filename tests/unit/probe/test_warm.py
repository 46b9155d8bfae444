"""What a process imports while it stands by."""

from __future__ import annotations

import sys

import pytest

from raylab_probe import warm

ARGV = [
    "default_worker.py",
    "--node-id=abc",
    "--runtime-env-hash=-42",
    "--worker-launch-time-ms=17",
    "--session-name",
    "s",
]


def test_arguments_are_found_in_both_forms() -> None:
    found = [warm.argument(name, ARGV) for name in ("--node-id", "--session-name", "--job", "--session")]
    assert found == ["abc", "s", "", ""]


def test_a_worker_process_has_a_place_of_job_environment_and_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_JOB_ID", "07000000")
    assert warm.my_place(ARGV) == "07000000/-42/abc"


def test_a_process_of_no_job_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_JOB_ID", raising=False)
    assert warm.my_place(ARGV) == ""


def test_names_survive_the_store() -> None:
    names = [f"package.module{n}" for n in range(3000)]
    packed = warm.packed(names)
    assert warm.unpacked(packed) == names
    assert len(packed) < 20_000


@pytest.mark.parametrize("error", [ImportError("gone"), RuntimeError("another build"), SystemExit(2)])
def test_a_module_that_cannot_be_imported_costs_only_itself(error: BaseException) -> None:
    loaded = []

    def load(name: str) -> None:
        if name == "bad":
            raise error
        loaded.append(name)

    assert warm.import_all(["one", "bad", "two"], load) == 2
    assert loaded == ["one", "two"]


def test_what_is_imported_is_not_imported_again() -> None:
    assert "sys" in sys.modules
    assert warm.import_all(["sys"], pytest.fail) == 0
