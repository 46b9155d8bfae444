"""`labctl test`: what it runs, what it passes on, and when it fails."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import SetupError, UnsupportedError
from lab.host import environment
from tests import go_programs
from tests.conftest import BEGAN, counted, forbid_skip, needs_go, pytest_runtest_setup
from tests.e2e.receipts import assert_valid
from tests.fakes.host import FakeClock
from tests.run import PARTS, ROOT, Counts, Selection, exit_code, run_tests


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ensure", lambda group: False)
    monkeypatch.setattr(go_programs, "build", no_go)


def no_go(program: go_programs.Program, say: Any) -> Path:
    raise UnsupportedError(f"{program.name} cannot be built: no `go` on PATH")


class FakeTerminal:
    """Runs nothing: every command has its exit code, and a pytest leaves its counts."""

    colored = False

    def __init__(self, codes: Mapping[str, int], stop: BaseException | None = None) -> None:
        self.codes, self.stop = codes, stop
        self.journal: list[str] = []

    def _line(self, argv: Sequence[str]) -> str:
        kept = [word for word in argv[2:] if not word.startswith("--counts=")]
        return " ".join(kept)

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        self.journal.append(self._line(argv))
        if self.stop and "pytest" in argv:
            raise self.stop
        return self._ended(argv)

    def begin(self, argv: Sequence[str], env: Mapping[str, str]) -> Any:
        self.journal.append(f"beside: {self._line(argv)}")
        return argv

    def show(self, begun: Any) -> int:
        self.journal.append("show")
        return self._ended(begun)

    def __enter__(self) -> FakeTerminal:
        return self

    def __exit__(self, kind: object, stop: object, traceback: object) -> None:
        self.journal += ["stopped"] if stop else []

    def _ended(self, argv: Sequence[str]) -> int:
        line = self._line(argv)
        code = next((code for part, code in self.codes.items() if part in line), 0)
        for file in (word.partition("=")[2] for word in argv if word.startswith("--counts=")):
            if code < 0:  # it was killed
                continue
            folder = next(word for word in argv if word.startswith("tests/"))
            counts = Counts({folder: Counter(passed=2)}, {folder: 1.5}, {"long": Counter({folder: 1})})
            Path(file).write_text(json.dumps(counts.to_json()), encoding="utf-8")
        return code


def ran(
    *chosen: str, codes: Mapping[str, int] | None = None, **options: Any
) -> tuple[int, list[str], list[str]]:
    """Exit code, what was done with which command lines after `python -m`, and lines that were said."""
    said: list[str] = []
    terminal: Any = FakeTerminal(codes or {})
    selection = Selection.of(chosen, **options)
    code = run_tests(selection, terminal=terminal, say=said.append, environ={}, clock=FakeClock())
    return code, terminal.journal, said


CASES = [
    ((), "", True, PARTS),
    (("lint",), "", True, ()),
    (("unit",), "", False, ("unit",)),
    (("e2e", "unit"), "", False, ("unit", "e2e")),
    (("lint", "contract"), "", True, ("contract",)),
    ((), "stamp", False, PARTS),
]


@pytest.mark.parametrize(("chosen", "expression", "lint", "parts"), CASES, ids=str)
def test_what_is_selected(
    chosen: tuple[str, ...], expression: str, lint: bool, parts: tuple[str, ...]
) -> None:
    selection = Selection.of(chosen, expression=expression)
    assert (selection.lint, selection.parts) == (lint, parts)


@pytest.mark.parametrize(("ci", "expected"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_in_ci_no_test_may_be_skipped(ci: str, expected: bool) -> None:
    assert ("--no-skips" in ran("contract", ci=ci)[1][0]) is expected


UNIT = "tests/unit tests/ext" if (ROOT / "tests" / "ext").is_dir() else "tests/unit"
PROCESSES = "pytest tests/e2e -o cache_dir=.pytest_cache/processes --lane=processes"
CONTAINERS = "pytest tests/contract tests/e2e -o cache_dir=.pytest_cache/containers --lane=containers"


def test_labs_run_beside_the_linters_and_the_unit_tests() -> None:
    code, journal, said = ran()
    assert code == 0
    assert journal == [
        f"beside: {PROCESSES}",
        f"beside: {CONTAINERS}",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        f"pytest {UNIT} -o cache_dir=.pytest_cache/unit",
        "show",
        "show",
    ]
    assert said[-11:] == [
        "== all of them",
        "ruff check: passed in 0.0 s",
        "ruff format: passed in 0.0 s",
        "mypy: passed in 0.0 s",
        *(f"tests/{part}: 2 passed in 1.5 s" for part in PARTS),
        *(f"tests/{part}: 1 long tests left out; `labctl test --all` runs them" for part in PARTS),
        "6 passed in 0.0 s",
    ]


def test_in_turn_there_is_one_pytest() -> None:
    assert ran("unit", "e2e", in_turn=True, arguments=("--pdb",))[1] == [f"pytest {UNIT} tests/e2e --pdb"]


def test_unit_tests_alone_run_in_two_halves() -> None:
    assert ran("unit")[1] == [
        f"beside: pytest {UNIT} -o cache_dir=.pytest_cache/other-half --lane=other-half",
        f"pytest {UNIT} -o cache_dir=.pytest_cache/one-half --lane=one-half",
        "show",
    ]


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({"ruff check": 1}, 1),
        ({"mypy": 2}, 1),
        ({"tests/unit": 1}, 1),
        ({"lane=containers": 2}, 2),
        ({"pytest": 5, "mypy": 1}, 5),
        ({"lane=containers": 5}, 0),
        ({}, 0),
    ],
)
def test_any_failure_is_the_whole_runs_failure(codes: dict[str, int], code: int) -> None:
    assert ran(codes=codes)[0] == code


EXIT_CODES = [((), 0), ((5,), 5), ((0, 5), 0), ((5, 1, 0), 1), ((5, 5), 5), ((1, 2, 0), 2), ((1, -9), -9)]


@pytest.mark.parametrize(("codes", "code"), EXIT_CODES, ids=str)
def test_a_lane_without_tests_says_nothing_of_the_others(codes: tuple[int, ...], code: int) -> None:
    assert exit_code(codes) == code


def test_a_failed_linter_does_not_keep_the_tests_from_running() -> None:
    _, journal, said = ran(codes={"ruff check": 1})
    assert "ruff check: FAILED in 0.0 s" in said
    assert journal[-2:] == ["show", "show"]


def test_an_interrupt_ends_the_lanes_beside() -> None:
    terminal: Any = FakeTerminal({}, KeyboardInterrupt())
    selection = Selection.of(("unit", "e2e"))
    with pytest.raises(KeyboardInterrupt):
        run_tests(selection, terminal=terminal, say=lambda _: None, environ={}, clock=FakeClock())
    assert terminal.journal[-1] == "stopped"


def test_a_lane_that_broke_off_is_told() -> None:
    code, _, said = ran("e2e", codes={"lane=containers": -9})
    assert code == -9
    assert said[-2] == "tests, containers: ended with exit code -9, nothing is counted"


def test_the_linters_alone_say_how_they_ended() -> None:
    code, _, said = ran("lint", codes={"mypy": 1})
    assert code == 1
    assert said[-3:] == [
        "ruff check: passed in 0.0 s",
        "ruff format: passed in 0.0 s",
        "mypy: FAILED in 0.0 s",
    ]


def test_the_test_group_is_installed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(environment, "ensure", asked.append)
    ran("lint")
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
        (report("skipped", "needs Go: there is no command `go`"), "skipped"),
        (report("skipped", "needs time: 3480 s were over"), "skipped"),
    ],
)
def test_which_skips_are_failures(given: SimpleNamespace, outcome: str) -> None:
    forbid_skip(given)  # type: ignore[arg-type]
    assert given.outcome == outcome
    if outcome == "failed":
        assert "no GPU here" in given.longrepr


@pytest.mark.parametrize(("within", "left_out"), [(None, False), (60.0, False), (-1.0, True)])
def test_what_would_begin_too_late_is_left_out_and_says_so(within: float | None, left_out: bool) -> None:
    config = SimpleNamespace(getoption={"--within": within}.get, stash={BEGAN: time.monotonic()})
    with pytest.raises(pytest.skip.Exception, match="needs time") if left_out else contextlib.nullcontext():
        pytest_runtest_setup(SimpleNamespace(config=config))  # type: ignore[arg-type]


def test_the_summary_has_a_line_for_each_part_in_order() -> None:
    def one(nodeid: str) -> SimpleNamespace:
        return SimpleNamespace(nodeid=nodeid, duration=1.5)

    stats = {
        "": [one("tests/e2e/test_demo.py::t")],
        "passed": [one("tests/e2e/test_demo.py::t"), one("tests/unit/cli/test_a.py::t")],
        "failed": [one("tests/unit/test_b.py::t")],
        "warnings": [one("tests/unit/test_b.py::t")],
    }
    long = Counter({"tests/e2e": 3, "tests/contract": 1})
    counts = counted(stats, {"long": long, "minio": Counter({"tests/e2e": 2})})
    assert counts.lines() == [
        "tests/unit: 1 passed, 1 failed in 3.0 s",
        "tests/e2e: 1 passed in 3.0 s",
        "tests/contract: 1 long tests left out; `labctl test --all` runs them",
        "tests/e2e: 3 long tests left out; `labctl test --all` runs them",
        "tests/e2e: 2 tests of MinIO left out; `labctl test --all` builds it with Go",
    ]
    assert counts.total() == "2 passed, 1 failed"
    counts.add(json.loads(json.dumps(counts.to_json())))
    assert counts.lines()[0] == "tests/unit: 2 passed, 2 failed in 6.0 s"
    assert counts.lines()[-1] == "tests/e2e: 4 tests of MinIO left out; `labctl test --all` builds it with Go"
    assert counts.total() == "4 passed, 2 failed"
    assert Counts().total() == "no tests ran"


def test_long_tests_run_when_they_are_asked_for() -> None:
    assert ran("e2e", long=True, in_turn=True)[1][-1] == "pytest tests/e2e --all"


@pytest.mark.parametrize(
    ("chosen", "options", "builds"),
    [
        ((), {"long": True}, True),
        ((), {"no_skips": True}, True),
        (("e2e",), {}, False),
        (("unit",), {"long": True}, False),
    ],
)
def test_minio_is_built_for_all_tests_and_in_ci_and_its_absence_is_told(
    chosen: tuple[str, ...], options: dict[str, Any], builds: bool
) -> None:
    message = "minio cannot be built: no `go` on PATH: its tests are left out"
    assert (message in ran(*chosen, **options)[2]) is builds


NO_SOURCES = go_programs.SourcesError("minio cannot be built: its sources are not here after 10 min")
BROKEN = SetupError("minio cannot be built: main.go:7:2: undefined: x")


def test_a_minio_whose_sources_are_out_of_reach_is_left_out_and_one_that_does_not_build_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(*_: Any) -> Path:
        raise why

    monkeypatch.setattr(go_programs, "build", build)
    why: Exception = NO_SOURCES
    assert f"{NO_SOURCES.message}: its tests are left out" in ran(long=True)[2]
    why = BROKEN
    with pytest.raises(SetupError, match="undefined: x"):
        ran(long=True)


def test_what_needs_go_is_skipped_for_want_of_sources_and_fails_where_it_does_not_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    with (
        pytest.raises(pytest.skip.Exception, match="cannot be built: its sources"),
        needs_go(),
    ):
        raise NO_SOURCES
    with pytest.raises(SetupError, match="undefined: x"), needs_go():
        raise BROKEN
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="there is no command"), needs_go():
        pytest.fail("there is no Go")


def test_an_assert_of_a_helper_shows_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.e2e.receipts.plain", lambda _: {"verdict": "failed"})
    monkeypatch.setattr("tests.e2e.receipts.parse", lambda *_: None)
    with pytest.raises(AssertionError, match=r"failed.*recovered"):
        assert_valid({"verdict": "recovered"})
