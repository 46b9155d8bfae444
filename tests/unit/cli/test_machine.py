"""doctor and test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.flows.doctor import Check
from tests.run import PARTS, Selection
from tests.unit.cli.fakes import Labctl

GOOD = Check("python", "passed", "3.11.9")
SCARCE = Check("memory", "warning", "1.0 GB free", "close something")
BAD = Check("home", "failed", "not writable", "export RAYLAB_HOME=/some/where")


def test_doctor_shows_every_check(labctl: Labctl) -> None:
    run = labctl.stub("lab.flows.doctor.run_checks", (GOOD, SCARCE))
    shown = labctl.ok("doctor", "--runtime", "local")
    assert "passed   python  3.11.9\n" in shown
    assert shown.endswith("memory: close something\n")
    run.assert_called_once_with("raylab", "local")


def test_doctor_fails_when_a_check_fails(labctl: Labctl) -> None:
    labctl.stub("lab.flows.doctor.run_checks", (GOOD, SCARCE, BAD))
    result = labctl("doctor")
    assert result.exit_code == 15
    assert result.stderr.startswith("error: 1 of 3 checks failed: home\n")


@pytest.mark.parametrize(("checks", "code"), [((GOOD, SCARCE), 0), ((GOOD, BAD), 15)])
def test_doctor_as_json(labctl: Labctl, checks: tuple[Check, ...], code: int) -> None:
    labctl.stub("lab.flows.doctor.run_checks", checks)
    document = labctl.json("doctor", code=code)
    assert document["ok"] is (code == 0)
    assert document["checks"][0] == {"name": "python", "outcome": "passed", "detail": "3.11.9", "hint": ""}


def ending(labctl: Labctl, code: int) -> Any:
    """Tests that end with this exit code."""

    def run(selection: Selection, *, terminal: object, say: Callable[[str], None]) -> int:
        say("== ruff check")
        return code

    return labctl.stub("tests.run.run_tests", run)


def test_test_passes_its_options_on(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    run = ending(labctl, 0)
    assert labctl.ok("test") == "== ruff check\n"
    flags = ("--unit", "--lint", "--all", "--no-skips", "--in-turn")
    labctl.ok("test", *flags, "-k", "name", "--", "-x", "--json")
    first, second = (call.args[0] for call in run.call_args_list)
    assert first == Selection(lint=True, parts=PARTS)
    assert second == Selection(True, ("unit",), "name", True, True, True, ("-x", "--json"))
    assert run.call_args.kwargs["terminal"].to_stderr is False


def test_test_has_the_exit_code_of_the_tests(labctl: Labctl) -> None:
    run = ending(labctl, 5)
    assert labctl("test").exit_code == 5
    result = labctl("test", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (5, {"passed": False, "exit_code": 5})
    assert result.stderr == "== ruff check\n"
    assert run.call_args.kwargs["terminal"].to_stderr is True


@pytest.mark.parametrize(
    "variables",
    [
        {"_LABCTL_COMPLETE": "x"},
        {"_LABCTL_COMPLETE": "bash_complete"},
        {"_LABCTL_COMPLETE": "bash_complete", "COMP_WORDS": "labctl st", "COMP_CWORD": "x"},
    ],
)
def test_a_completion_that_no_shell_asks_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str]
) -> None:
    from lab.cli.main import main

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["status"]) == 2
    assert "_LABCTL_COMPLETE" in capsys.readouterr().err
