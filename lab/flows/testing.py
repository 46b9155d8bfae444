"""labctl's own tests: ruff, mypy, then pytest over unit, contract and end-to-end tests, in one report.

pytest runs once, so that its closing line counts everything; tests/conftest.py prints above it one line for
each part, those given with --part (the linters) included.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.errors import UsageError
from lab.host import command, environment
from lab.host.clock import MONOTONIC, Clock

PARTS = ("unit", "contract", "e2e")
"""The folders of tests/, in the order in which they run: what fails fast comes first."""

LINTERS: dict[str, tuple[str, ...]] = {
    "ruff check": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy",),
}

Call = Callable[[Sequence[str], Mapping[str, str]], int]


UNWANTED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Variables that the tests run without. Without bytecode every labctl that they call would compile itself."""

TEARDOWN_SECONDS = 120.0
"""Time for interrupted tests to take their labs down: stopping one takes up to 10 s."""


def call(argv: Sequence[str], env: Mapping[str, str], *, to_stderr: bool = False) -> int:
    """Run a process in the checkout, its output going where this process's goes; its exit code.

    When interrupted, it waits for the process, which Ctrl-C reaches too: tests take their labs down.
    """
    stdout = sys.stderr if to_stderr else None
    with command.start(argv, cwd=environment.ROOT, env=dict(env), stdout=stdout) as child:
        try:
            return child.wait()
        except KeyboardInterrupt as interrupt:
            if type(interrupt) is not KeyboardInterrupt:  # a signal to this process alone, such as SIGTERM
                child.send_signal(signal.SIGINT)
            try:
                child.wait(TEARDOWN_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
            raise


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
    arguments: tuple[str, ...] = ()
    """Passed on to pytest."""

    @classmethod
    def parse(cls, arguments: Sequence[str], environ: Mapping[str, str]) -> Selection:
        """From the command line of `labctl test`. Raises UsageError."""
        parser = argparse.ArgumentParser(
            prog="labctl test", add_help=False, allow_abbrev=False, exit_on_error=False
        )
        for part in ("lint", *PARTS):
            parser.add_argument(f"--{part}", action="store_true")
        parser.add_argument("-k", dest="expression", default="")
        parser.add_argument("--all", action="store_true")
        parser.add_argument("--no-skips", action="store_true")
        own = list(arguments)
        rest: list[str] = []
        if "--" in own:
            split = own.index("--")
            own, rest = own[:split], own[split + 1 :]
        try:
            flags, unknown = parser.parse_known_args(own)
        except argparse.ArgumentError as error:
            raise UsageError(f"labctl test: {error}") from None
        chosen = tuple(part for part in PARTS if getattr(flags, part))
        everything = not (chosen or flags.lint)
        return cls(
            lint=flags.lint or (everything and not flags.expression),
            parts=PARTS if everything else chosen,
            expression=flags.expression,
            long=flags.all,
            no_skips=flags.no_skips or environ.get("CI", "").lower() in ("true", "1"),
            arguments=(*unknown, *rest),
        )


def run_tests(
    arguments: Sequence[str],
    *,
    run: Call = call,
    say: Callable[[str], None] = print,
    environ: Mapping[str, str] | None = None,
    clock: Clock = MONOTONIC,
) -> int:
    """Run the tests that `arguments` select; 0 when all of them passed.

    `[--unit] [--contract] [--e2e] [--lint] [-k EXPR] [--all] [--no-skips] [PYTEST ARGUMENTS]`: all four
    parts unless some are named. Raises UsageError; SetupError when the `test` group cannot be installed.
    """
    environ = os.environ if environ is None else environ
    selection = Selection.parse(arguments, environ)
    environment.ensure("test")
    env = {k: v for k, v in environ.items() if k not in UNWANTED}
    parts, linted = [], True
    for name, argv in LINTERS.items() if selection.lint else ():
        say(f"== {name}")
        start = clock()
        passed = run([sys.executable, "-m", *argv], env) == 0
        linted = linted and passed
        parts.append(f"{name}: {'passed' if passed else 'FAILED'} in {clock() - start:.1f} s")
    if not selection.parts:
        for part in parts:
            say(part)
        return 0 if linted else 1
    code = run(pytest_command(selection, parts), env)
    return code if code or linted else 1


def pytest_command(selection: Selection, parts: Sequence[str]) -> list[str]:
    """The command line of pytest; `parts` are lines for its summary."""
    return [
        *(sys.executable, "-m", "pytest"),
        *(f"tests/{part}" for part in selection.parts),
        *(f"--part={part}" for part in parts),
        *(("-k", selection.expression) if selection.expression else ()),
        *(("--all",) if selection.long else ()),
        *(("--no-skips",) if selection.no_skips else ()),
        *selection.arguments,
    ]
