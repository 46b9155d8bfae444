"""Processes beside each other, whose output is shown one after the other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType

from lab.host import command, environment
from lab.host.clock import MONOTONIC, Clock

TEARDOWN_SECONDS = 120.0
"""Time for interrupted processes to end what they have started: taking a lab down takes up to 10 s."""

LOOK_SECONDS = 0.2
"""Time between two looks at what a process has written."""


class Beside:
    """A process in the checkout that has no input, and whose output is kept until it is shown."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start it. Raises OSError."""
        with contextlib.ExitStack() as stack:
            kept = stack.enter_context(tempfile.NamedTemporaryFile(prefix="raylab-"))
            self._written = stack.enter_context(open(kept.name, "rb"))
            self.child = command.start(
                argv,
                cwd=environment.ROOT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=kept,
                stderr=subprocess.STDOUT,
            )
            self._files = stack.pop_all()

    def written(self) -> bytes:
        """Return what it has written since the last look."""
        return self._written.read()

    def close(self) -> None:
        """Forget what it has written."""
        self._files.close()


class Terminal:
    """Runs processes in the checkout, and shows their output where this process's goes.

    As a context: what still goes on when it is left by an exception is ended as Ctrl-C does, and waited for.
    """

    def __init__(self, to_stderr: bool = False, colored: bool = False, clock: Clock = MONOTONIC) -> None:
        """`colored`: what is kept shall be in colour, too."""
        self.to_stderr, self.colored, self._clock = to_stderr, colored, clock
        self._out = sys.stderr if to_stderr else sys.stdout
        self._foreground: subprocess.Popen[bytes] | None = None
        self._beside: list[Beside] = []

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Run a process that has the terminal; return its exit code. Raises OSError."""
        self._out.flush()
        self._foreground = command.start(argv, cwd=environment.ROOT, env=dict(env), stdout=self._out)
        code = int(self._foreground.wait())
        self._foreground = None
        return code

    def begin(self, argv: Sequence[str], env: Mapping[str, str]) -> Beside:
        """Start a process beside those that are run here, to be shown later. Raises OSError."""
        self._beside.append(Beside(argv, env))
        return self._beside[-1]

    def show(self, begun: Beside) -> int:
        """Show what it has written, and what it writes until it ends; return its exit code."""
        while True:
            code: int | None = begun.child.poll()  # before the look, so that its last words are not missed
            self._show(begun.written())
            if code is not None:
                self._beside.remove(begun)
                begun.close()
                return code
            self._clock.sleep(LOOK_SECONDS)

    def _show(self, written: bytes) -> None:
        self._out.flush()
        self._out.buffer.write(written)
        self._out.buffer.flush()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, stop: BaseException | None, traceback: TracebackType | None
    ) -> None:
        children = [*filter(None, [self._foreground]), *(begun.child for begun in self._beside)]
        if type(stop) is not KeyboardInterrupt:  # Ctrl-C in a terminal has reached them by itself
            for child in children:
                child.send_signal(signal.SIGINT)
        end = self._clock() + TEARDOWN_SECONDS
        for child in children:
            try:
                child.wait(max(0.0, end - self._clock()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for begun in self._beside:
            with contextlib.suppress(OSError), contextlib.closing(begun):
                self._show(begun.written())
        self._foreground, self._beside = None, []
