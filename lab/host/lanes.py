"""Processes beside each other, whose output is shown one after the other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from lab.host import command, environment
from lab.host.clock import MONOTONIC, Clock

TEARDOWN_SECONDS = 120.0
"""Time for an interrupted process to end what it has started: taking a lab down takes up to 10 s."""

LOOK_SECONDS = 0.2
"""Time between two looks at what a process has written."""


class Beside:
    """A process in the checkout that has no input, and whose output is kept until it is shown."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start it. Raises OSError."""
        with contextlib.ExitStack() as stack:
            kept = stack.enter_context(tempfile.NamedTemporaryFile(prefix="raylab-"))
            self._written = stack.enter_context(open(kept.name, "rb"))
            self._child = command.start(
                argv,
                cwd=environment.ROOT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=kept,
                stderr=subprocess.STDOUT,
            )
            self._files = stack.pop_all()

    def show(self, out: BinaryIO, clock: Clock = MONOTONIC) -> int:
        """Copy to `out` what it has written, and what it writes until it ends; return its exit code."""
        while True:
            code = self._child.poll()  # before the look, so that its last words are not missed
            out.write(self._written.read())
            out.flush()
            if code is not None:
                self._files.close()
                return code
            clock.sleep(LOOK_SECONDS)

    def interrupt(self, interrupt: KeyboardInterrupt) -> None:
        """End it as Ctrl-C does, and wait for that; nothing is shown."""
        with self._files:
            end(self._child, interrupt)


class Terminal:
    """Runs processes in the checkout, their output going where this process's goes."""

    def __init__(self, to_stderr: bool = False) -> None:
        self.to_stderr = to_stderr
        self._out = sys.stderr if to_stderr else sys.stdout

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Run a process; return its exit code. When interrupted, wait until it has ended."""
        self._out.flush()
        with command.start(argv, cwd=environment.ROOT, env=dict(env), stdout=self._out) as child:
            try:
                return int(child.wait())
            except KeyboardInterrupt as interrupt:
                end(child, interrupt)
                raise

    def begin(self, argv: Sequence[str], env: Mapping[str, str]) -> Beside:
        """Start a process beside those that are run here; show it with `show`."""
        return Beside(argv, env)

    def show(self, begun: Beside) -> int:
        """Show a process until its end; return its exit code."""
        self._out.flush()
        return begun.show(self._out.buffer)

    @property
    def colored(self) -> bool:
        """True where a person looks at it."""
        return self._out.isatty()


def end(child: subprocess.Popen[Any], interrupt: KeyboardInterrupt) -> None:
    """Wait for a process that is interrupted, as Ctrl-C in a terminal does to all of them by itself."""
    if type(interrupt) is not KeyboardInterrupt:  # a signal to this process alone, such as SIGTERM
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
    try:
        child.wait(TEARDOWN_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
