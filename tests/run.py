"""labctl's own tests: ruff, mypy, then pytest over unit, contract and end-to-end tests, in one summary.

A lab waits more than it computes. So there are three lanes of tests beside each other: unit tests, labs of
processes end to end, and the contract with labs of containers end to end. What a lane prints is shown when
the one before it has ended, so it reads as if they had run in turn.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.errors import UnsupportedError
from lab.host import environment
from lab.host.clock import MONOTONIC, Clock
from lab.host.quantities import format_duration
from lab.host.reading import read_json
from tests import go_programs
from tests.built import TESTED
from tests.lanes import Terminal

ROOT = Path(__file__).resolve().parent.parent

PARTS = ("unit", "contract", "e2e")
"""The parts of the tests, in the order in which they are summed up."""

FOLDERS = {"unit": ("unit", "ext")}
"""Part -> its folders of tests/; of other parts the one of that name. `ext` has unit tests of extensions."""

LANES = ("processes", "containers")
"""Of the tests with labs most of those end to end with labs of processes, and all others: beside each other,
and beside the unit tests. Both take as long."""

HALVES = ("one-half", "other-half")
"""Where only unit tests run: every second file of them, and the others, beside each other."""

LINTERS: dict[str, tuple[str, ...]] = {
    "ruff check": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy",),
}

UNWANTED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Variables that the tests run without. Without bytecode every labctl that they call would compile itself."""

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
"""How a test can end, in the order of a summary."""

LEFT_OUT = {
    "long": "long tests left out; `labctl test --all` runs them",
    "further": "further tests with labs left out; `labctl test --all` runs them",
    "minio": "tests of MinIO left out; `labctl test --all` builds it with Go",
}
"""Kind of tests that may be left out -> what the summary says of them."""

TESTS_FAILED, NOTHING_COLLECTED = 1, 5
"""pytest's exit codes where a test failed, and where no test was selected."""


@dataclass(frozen=True)
class Selection:
    """Tests to run."""

    lint: bool
    parts: tuple[str, ...]
    expression: str = ""
    """pytest's -k: an expression over the names of tests."""
    long: bool = False
    """Run the long tests too."""
    no_skips: bool = False
    """Count a skipped test as failed."""
    in_turn: bool = False
    """Run one test after the other, in one pytest that has the terminal."""
    arguments: tuple[str, ...] = ()
    """Passed on to pytest."""

    @classmethod
    def of(cls, chosen: Collection[str], ci: str = "", **options: Any) -> Selection:
        """`chosen` of lint and PARTS, everything without any. `ci` is the variable CI: no skips then."""
        parts = tuple(part for part in PARTS if part in chosen)
        everything = not chosen
        selection = cls(
            lint="lint" in chosen or (everything and not options.get("expression")),
            parts=PARTS if everything else parts,
            **options,
        )
        return replace(selection, no_skips=True) if ci.lower() in ("true", "1") else selection


@dataclass(frozen=True)
class Lane:
    """Tests that one pytest runs, one after the other."""

    name: str
    parts: tuple[str, ...]

    def command(self, selection: Selection, counts: Path, colored: bool) -> list[str]:
        """Return the command line of its pytest, which leaves its counts in this file."""
        return [
            *(sys.executable, "-m", "pytest"),
            *(f"tests/{folder}" for part in self.parts for folder in folders_of(part)),
            *(("-o", f"cache_dir=.pytest_cache/{self.name}") if self.name else ()),
            *((f"--lane={self.name}",) if self.name in (*LANES, *HALVES) else ()),
            *(("--color=yes",) if colored else ()),
            f"--counts={counts}",
            *(("-k", selection.expression) if selection.expression else ()),
            *(("--all",) if selection.long else ()),
            *(("--no-skips",) if selection.no_skips else ()),
            *selection.arguments,
        ]


def folders_of(part: str) -> list[str]:
    """Return the folders of a part that are there: extensions can be deleted."""
    return [folder for folder in FOLDERS.get(part, (part,)) if (ROOT / "tests" / folder).is_dir()]


def lanes_of(selection: Selection) -> tuple[Lane, ...]:
    """Return the lanes in which these tests run beside each other."""
    if selection.in_turn:
        return (Lane("", selection.parts),) if selection.parts else ()
    if selection.parts == ("unit",):
        return tuple(Lane(name, selection.parts) for name in HALVES)
    parts = {
        "unit": ("unit",),
        "processes": ("e2e",),
        "containers": ("contract", "e2e"),  # the contract with either runtime: so both take as long
    }
    chosen = {name: tuple(part for part in of if part in selection.parts) for name, of in parts.items()}
    return tuple(Lane(name, of) for name, of in chosen.items() if of)


@dataclass
class Counts:
    """How the tests of each folder ended: made by a pytest, added up over all of them."""

    ended: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    """Key of LEFT_OUT -> number of tests of each folder that did not run for that."""

    def add(self, other: Mapping[str, Any]) -> None:
        """Add what `to_json` gave of another pytest."""
        for folder, ended in other["ended"].items():
            self.ended.setdefault(folder, Counter()).update(ended)
        for folder, seconds in other["seconds"].items():
            self.seconds[folder] = self.seconds.get(folder, 0.0) + seconds
        for why, left in other["left_out"].items():
            self.left_out.setdefault(why, Counter()).update(left)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"ended": self.ended, "seconds": self.seconds, "left_out": self.left_out}

    def lines(self) -> list[str]:
        """One line for each folder, and one for each of which tests were left out."""
        return [
            *(
                f"{folder}: {_outcomes(self.ended[folder])} in {self.seconds[folder]:.1f} s"
                for folder in sorted(self.ended, key=_order)
            ),
            *(
                f"{folder}: {left[folder]} {LEFT_OUT[why]}"
                for why, left in sorted(self.left_out.items())
                for folder in sorted(left, key=_order)
            ),
        ]

    def total(self) -> str:
        """How all of them ended."""
        return _outcomes(sum(self.ended.values(), Counter())) or "no tests ran"


def _outcomes(ended: Counter[str]) -> str:
    return ", ".join(f"{ended[outcome]} {outcome}" for outcome in OUTCOMES if ended[outcome])


def _order(folder: str) -> tuple[int, str]:
    name = folder.rpartition("/")[2]
    return (PARTS.index(name) if name in PARTS else len(PARTS), folder)


def run_tests(
    selection: Selection,
    *,
    terminal: Terminal | None = None,
    say: Callable[[str], None] = print,
    environ: Mapping[str, str] | None = None,
    clock: Clock = MONOTONIC,
) -> int:
    """Run the tests selected; 0 when all of them passed.

    Raises SetupError when the `test` group cannot be installed.
    """
    environ = os.environ if environ is None else environ
    terminal = Terminal() if terminal is None else terminal
    environment.ensure("test")
    env = {k: v for k, v in environ.items() if k not in UNWANTED}
    if (selection.long or selection.no_skips) and {"contract", "e2e"}.intersection(selection.parts):
        build_programs(say)
    began = clock()
    counts, uncounted = Counts(), []
    with tempfile.TemporaryDirectory(prefix="raylab-") as folder:
        lanes = lanes_of(selection)
        files = [Path(folder, lane.name or "all") for lane in lanes]
        commands = [
            lane.command(selection, file, terminal.colored) for lane, file in zip(lanes, files, strict=True)
        ]
        with terminal:
            beside = [terminal.begin(argv, env) for argv in commands[1:]]
            linters = [lint(name, terminal, say, env, clock) for name in LINTERS if selection.lint]
            codes = [terminal.run(argv, env) for argv in commands[:1]]
            for lane, begun in zip(lanes[1:], beside, strict=True):
                what = "the other half" if lane.name in HALVES else f"labs of {lane.name}"
                say(f"== {', '.join(lane.parts)}: {what}, beside the tests above")
                codes.append(terminal.show(begun))
        for file, code in zip(files, codes, strict=True):
            if file.exists():
                counts.add(read_json(file))
            else:
                uncounted.append(f"tests, {file.name}: ended with exit code {code}, nothing is counted")
    say("== all of them")
    for line in (*(linted.line for linted in linters), *counts.lines(), *uncounted):
        say(line)
    if lanes:
        say(f"{counts.total()} in {format_duration(clock() - began)}")
    return exit_code(codes) or int(not all(linted.passed for linted in linters))


def build_programs(say: Callable[[str], None]) -> None:
    """Build MinIO, Prometheus and Alertmanager for the tests.

    Those of a program are left out where there is no Go, or its sources cannot be had. Raises SetupError
    where it cannot be built of them.
    """
    for program in TESTED:
        try:
            go_programs.build(program, say)
        except (UnsupportedError, go_programs.SourcesError) as error:
            say(f"{error.message}: its tests are left out")


@dataclass(frozen=True)
class Linted:
    """How a linter ended."""

    passed: bool
    line: str


def lint(
    name: str, terminal: Terminal, say: Callable[[str], None], env: Mapping[str, str], clock: Clock
) -> Linted:
    """Run a linter."""
    say(f"== {name}")
    start = clock()
    passed = terminal.run([sys.executable, "-m", *LINTERS[name]], env) == 0
    return Linted(passed, f"{name}: {'passed' if passed else 'FAILED'} in {clock() - start:.1f} s")


def exit_code(codes: Sequence[int]) -> int:
    """Return the exit code of several pytests: that of one which broke off, else of failed tests.

    That one had nothing to do counts only if all had nothing.
    """
    outcomes = [code for code in codes if code != NOTHING_COLLECTED] or list(codes)
    return next((code for code in outcomes if code not in (0, TESTS_FAILED)), max(outcomes, default=0))
