"""doctor and test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.flows.doctor import Check
from lab.lab import Lab
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


def test_doctor_asks_an_s3_server_instead(labctl: Labctl) -> None:
    ask = labctl.stub("lab.flows.doctor.store.store_checks", (GOOD,))
    labs = labctl.stub("lab.flows.doctor.store.endpoints_of")
    url = "http://127.0.0.1:9000"
    labctl.ok("doctor", "--s3", url)
    labctl.ok("doctor", "--s3", url, "--bucket", "b", "--s3-credentials", "key.json", "--lab", "other")
    assert [call.args for call in ask.call_args_list] == [
        (url, "ray", None, None),
        (url, "b", Path("key.json"), None),
    ]
    ask.call_args.kwargs["endpoints"]()
    labs.assert_called_once_with("other", "auto")


class FakeAcceptance:
    """An acceptance with one check, which fails."""

    checks = (Check("pinning", "failed", "sees no GPU", "`labctl restart ray-worker-0`"),)

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def run(self, on_progress: Callable[[str], None], keep: Callable[[Any], None]) -> None:
        on_progress("pinning: failed after 1.0 s")
        keep(self.report())

    def report(self) -> dict[str, Any]:
        return {"schema": "gpu-acceptance/1", "ok": False, "not_checked": []}


@pytest.fixture
def accepting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lab.flows.acceptance.Acceptance", FakeAcceptance)
    monkeypatch.chdir(tmp_path)


def test_doctor_checks_gpus_and_writes_a_report_that_only_its_owner_reads(
    labctl: Labctl, accepting: None
) -> None:
    result = labctl("doctor", "--gpu-acceptance")
    assert result.exit_code == 15
    assert "failed  pinning  sees no GPU\n" in result.stdout
    assert result.stderr.startswith("pinning: failed after 1.0 s\nreport: gpu-acceptance.json\n")
    report = Path("gpu-acceptance.json")
    assert json.loads(report.read_text())["schema"] == "gpu-acceptance/1"
    assert report.stat().st_mode & 0o777 == 0o600


def test_the_report_is_the_document_of_json_too(labctl: Labctl, accepting: None) -> None:
    document = labctl.json("doctor", "--gpu-acceptance", "--output", "gpus.json", code=15)
    assert (document["schema"], document["report"]) == ("gpu-acceptance/1", "gpus.json")
    assert json.loads(Path("gpus.json").read_text())["ok"] is False


def test_a_file_that_is_there_is_not_replaced_by_a_report(labctl: Labctl, accepting: None) -> None:
    Path("thesis.json").write_text("mine")
    refused = labctl("doctor", "--gpu-acceptance", "--output", "thesis.json")
    assert (refused.exit_code, Path("thesis.json").read_text()) == (11, "mine")
    assert "thesis.json is there already" in refused.stderr


@pytest.mark.parametrize(
    "arguments", [("--gpu-acceptance", "--s3", "http://127.0.0.1:9"), ("--output", "gpus.json")]
)
def test_options_of_doctor_that_do_not_go_together_are_refused(
    labctl: Labctl, arguments: tuple[str, ...]
) -> None:
    assert labctl("doctor", *arguments).exit_code == 2


def test_doctor_fails_when_the_s3_server_does(labctl: Labctl) -> None:
    labctl.stub(
        "lab.flows.doctor.store.store_checks", (GOOD, Check("copy", "failed", "HTTP 501", "another store"))
    )
    assert labctl("doctor", "--s3", "http://127.0.0.1:9000").exit_code == 15


@pytest.mark.parametrize("option", ["--bucket", "--s3-ca", "--s3-credentials"])
def test_options_of_an_s3_server_need_its_address(labctl: Labctl, option: str) -> None:
    result = labctl("doctor", option, "x")
    assert (result.exit_code, f"{option} needs --s3" in result.stderr) == (2, True)


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
