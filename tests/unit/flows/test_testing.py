"""`labctl test`: what it runs, what it passes on, and when it fails."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest

from lab.errors import UsageError
from lab.flows import testing
from lab.flows.testing import PARTS, Selection, run_tests
from lab.host import environment
from tests.conftest import forbid_skip, left_out, summary
from tests.fakes.host import FakeClock


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ensure", lambda group: False)


def ran(
    *arguments: str, codes: Mapping[str, int] | None = None, ci: str = ""
) -> tuple[int, list[str], list[str]]:
    """Exit code, command lines after `python -m`, and lines that were said."""
    commands: list[str] = []
    said: list[str] = []

    def run(argv: Sequence[str], env: Mapping[str, str]) -> int:
        commands.append(" ".join(argv[2:]))
        return next((code for part, code in (codes or {}).items() if commands[-1].startswith(part)), 0)

    code = run_tests(arguments, run=run, say=said.append, environ={"CI": ci}, clock=FakeClock())
    return code, commands, said


CASES = [
    ((), True, PARTS),
    (("--lint",), True, ()),
    (("--unit",), False, ("unit",)),
    (("--e2e", "--unit"), False, ("unit", "e2e")),
    (("--lint", "--contract"), True, ("contract",)),
    (("-k", "stamp"), False, PARTS),
    (("-x", "--", "--unit"), True, PARTS),
]


@pytest.mark.parametrize(("arguments", "lint", "parts"), CASES, ids=str)
def test_what_is_selected(arguments: tuple[str, ...], lint: bool, parts: tuple[str, ...]) -> None:
    selection = Selection.parse(arguments, {})
    assert (selection.lint, selection.parts) == (lint, parts)


def test_what_it_does_not_know_goes_to_pytest() -> None:
    selection = Selection.parse(["--unit", "-x", "--durations=5", "--", "-k", "inner"], {})
    assert selection.arguments == ("-x", "--durations=5", "-k", "inner")


def test_an_expression_that_is_missing_is_told() -> None:
    with pytest.raises(UsageError, match="-k"):
        Selection.parse(["-k"], {})


@pytest.mark.parametrize(("ci", "expected"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_in_ci_no_test_may_be_skipped(ci: str, expected: bool) -> None:
    assert ("--no-skips" in ran("--unit", ci=ci)[1][0]) is expected


def test_the_linters_come_first_and_one_pytest_counts_the_rest() -> None:
    code, commands, _ = ran()
    assert code == 0
    assert commands[:3] == ["ruff check .", "ruff format --check .", "mypy"]
    assert commands[3].startswith("pytest tests/unit tests/contract tests/e2e --part=ruff check: passed")
    assert len(commands) == 4


@pytest.mark.parametrize(
    ("codes", "code"),
    [({"ruff check": 1}, 1), ({"mypy": 2}, 1), ({"pytest": 1}, 1), ({"pytest": 5, "mypy": 1}, 5), ({}, 0)],
)
def test_any_failure_is_the_whole_runs_failure(codes: dict[str, int], code: int) -> None:
    assert ran(codes=codes)[0] == code


def test_a_failed_linter_does_not_keep_the_tests_from_running() -> None:
    commands = ran(codes={"ruff check": 1})[1]
    assert "--part=ruff check: FAILED in 0.0 s" in commands[-1]


def test_the_linters_alone_say_how_they_ended() -> None:
    code, _, said = ran("--lint", codes={"mypy": 1})
    assert code == 1
    assert said[-3:] == [
        "ruff check: passed in 0.0 s",
        "ruff format: passed in 0.0 s",
        "mypy: FAILED in 0.0 s",
    ]


def test_the_test_group_is_installed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(environment, "ensure", asked.append)
    ran("--lint")
    assert asked == ["test"]


def report(outcome: str, reason: str = "", **fields: object) -> SimpleNamespace:
    return SimpleNamespace(outcome=outcome, longrepr=("file.py", 3, f"Skipped: {reason}"), **fields)


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (report("skipped", "no GPU here"), "failed"),
        (report("skipped", "needs Docker: no GPU here, nor an engine"), "failed"),
        (report("skipped", "known bug", wasxfail="known bug"), "skipped"),
        (report("passed"), "passed"),
    ],
)
def test_which_skips_are_failures(given: SimpleNamespace, outcome: str) -> None:
    forbid_skip(given)  # type: ignore[arg-type]
    assert given.outcome == outcome
    if outcome == "failed":
        assert "no GPU here" in given.longrepr


def test_the_summary_has_a_line_for_each_part_in_order() -> None:
    def one(nodeid: str) -> SimpleNamespace:
        return SimpleNamespace(nodeid=nodeid, duration=1.5)

    stats = {
        "": [one("tests/e2e/test_demo.py::t")],
        "passed": [one("tests/e2e/test_demo.py::t"), one("tests/unit/cli/test_a.py::t")],
        "failed": [one("tests/unit/test_b.py::t")],
        "warnings": [one("tests/unit/test_b.py::t")],
    }
    assert summary(stats) == [
        "tests/unit: 1 passed, 1 failed in 3.0 s",
        "tests/e2e: 1 passed in 3.0 s",
    ]


def test_the_summary_counts_the_long_tests_that_were_left_out() -> None:
    assert left_out(Counter()) == []
    assert left_out(Counter({"tests/e2e": 3, "tests/contract": 1})) == [
        "tests/contract: 1 long tests left out; `labctl test --all` runs them",
        "tests/e2e: 3 long tests left out; `labctl test --all` runs them",
    ]


def test_long_tests_run_when_they_are_asked_for() -> None:
    assert ran("--e2e", "--all")[1][-1] == "pytest tests/e2e --all"


def test_interrupted_tests_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    journal: list[object] = []

    class Child:
        def __enter__(self) -> Child:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def wait(self, timeout: float | None = None) -> int:
            journal.append(("wait", timeout))
            if timeout is None:
                raise stop
            return 2

        def send_signal(self, number: int) -> None:
            journal.append(("signal", number))

    class Terminated(KeyboardInterrupt):
        pass

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: Child())
    waited = ("wait", testing.TEARDOWN_SECONDS)
    stop: KeyboardInterrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        testing.call(["pytest"], {})
    assert journal == [("wait", None), waited], "Ctrl-C has reached the child already"
    journal.clear()
    stop = Terminated()
    with pytest.raises(Terminated):
        testing.call(["pytest"], {})
    assert journal == [("wait", None), ("signal", signal.SIGINT), waited]
