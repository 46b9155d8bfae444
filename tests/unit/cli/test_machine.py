"""doctor and test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.flows.doctor import Check
from tests.unit.cli.fakes import Labctl

GOOD = Check("python", "passed", "3.11.9")
SCARCE = Check("memory", "warning", "1.0 GB free", "close something")
BAD = Check("home", "failed", "not writable", "export RAYLAB_HOME=/some/where")


def test_doctor_shows_every_check(labctl: Labctl) -> None:
    labctl.core.found = (GOOD, SCARCE)
    shown = labctl.ok("doctor", "--runtime", "local")
    assert "passed   python  3.11.9\n" in shown
    assert shown.endswith("memory: close something\n")
    assert labctl.core.requests == [("raylab", "local")]


def test_doctor_fails_when_a_check_fails(labctl: Labctl) -> None:
    labctl.core.found = (GOOD, SCARCE, BAD)
    result = labctl("doctor")
    assert result.exit_code == 15
    assert result.stderr.startswith("error: 1 of 3 checks failed: home\n")


@pytest.mark.parametrize(("checks", "code"), [((GOOD, SCARCE), 0), ((GOOD, BAD), 15)])
def test_doctor_as_json(labctl: Labctl, checks: tuple[Check, ...], code: int) -> None:
    labctl.core.found = checks
    document = labctl.json("doctor", code=code)
    assert document["ok"] is (code == 0)
    assert document["checks"][0] == {"name": "python", "outcome": "passed", "detail": "3.11.9", "hint": ""}


def test_doctor_asks_an_s3_server_instead(labctl: Labctl) -> None:
    labctl.core.found = (GOOD,)
    url = "http://127.0.0.1:9000"
    labctl.ok("doctor", "--s3", url)
    labctl.ok("doctor", "--s3", url, "--bucket", "b", "--s3-credentials", "key.json", "--name", "other")
    assert labctl.core.requests == [
        (url, "ray", None, "raylab", "auto"),
        (url, "b", Path("key.json"), "other", "auto"),
    ]


def test_doctor_fails_when_the_s3_server_does(labctl: Labctl) -> None:
    labctl.core.found = (GOOD, Check("copy", "failed", "HTTP 501", "another store"))
    assert labctl("doctor", "--s3", "http://127.0.0.1:9000").exit_code == 15


@pytest.mark.parametrize("option", ["--bucket", "--s3-credentials"])
def test_options_of_an_s3_server_need_its_address(labctl: Labctl, option: str) -> None:
    result = labctl("doctor", option, "x")
    assert (result.exit_code, f"{option} belongs to --s3" in result.stderr) == (2, True)


def test_test_passes_its_options_on(labctl: Labctl) -> None:
    assert labctl.ok("test") == "== ruff check\n"
    labctl.ok("test", "--unit", "--lint", "-k", "name", "--all", "--no-skips", "--", "-x", "--json")
    assert labctl.core.requests == [
        (("--",), False),
        (("--lint", "--unit", "--all", "--no-skips", "-k", "name", "--", "-x", "--json"), False),
    ]


def test_test_has_the_exit_code_of_the_tests(labctl: Labctl) -> None:
    labctl.core.test_code = 5
    assert labctl("test").exit_code == 5
    result = labctl("test", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (5, {"passed": False, "exit_code": 5})
    assert result.stderr == "== ruff check\n"


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
