"""Loops of a daemon: each outlives whatever its step raises, and tells when it last completed one."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from lab.errors import LabError, message_of
from lab.host.clock import MONOTONIC, Clock
from lab.host.serving import App, Environ, StartResponse, answer, log

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 10.0
"""Back-off after a failed step: the first pause, doubled with each that follows, and the longest."""

FAILING_SECONDS = 20.0
"""Age of the last completed step at which a loop whose steps fail makes its daemon unhealthy."""

SILENT_SECONDS = 120.0
"""The same for a step that does not return: on a busy machine one that asks Ray takes long."""

HEALTH = "/healthz"
"""Path at which a daemon tells of its loops."""


@dataclass(frozen=True)
class LoopState:
    """A loop now: seconds since it completed a step, and why the last one failed, or nothing."""

    name: str
    age: float
    error: str = ""

    @property
    def problem(self) -> str:
        """The reason why the loop does not do its work; empty while it does."""
        if self.age <= (FAILING_SECONDS if self.error else SILENT_SECONDS):
            return ""
        why = self.error or "a step has not returned"
        return f"{self.name} has completed no step for {self.age:.0f} s: {why}"


class Loop:
    """Repeats a step in a thread of its own. One that raises is logged, and repeated after a back-off."""

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        *,
        wake: threading.Event | None = None,
        clock: Clock = MONOTONIC,
        say: Callable[[str], None] = log,
    ) -> None:
        """`step` returns the seconds until the next one; `wake` ends that pause early, but no back-off."""
        self.name, self._step, self._clock, self._say = name, step, clock, say
        self._wake, self._over = wake or threading.Event(), threading.Event()
        self._completed = clock()
        self._error, self._failures = "", 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def state(self) -> LoopState:
        return LoopState(self.name, self._clock() - self._completed, self._error)

    def start(self) -> None:
        """Begin, once."""
        self._completed = self._clock()
        self._thread.start()

    def end(self, timeout: float) -> None:
        """Make no further step, and wait up to `timeout` seconds for the one that is being made."""
        self._over.set()
        self._wake.set()
        self._thread.join(timeout)

    def once(self) -> float:
        """Make a step, and return the seconds until the next one. Raises nothing."""
        try:
            pause = self._step()
        except BaseException as error:  # also what ends a thread: nobody would begin another one
            return self._failed(error)
        if self._failures:
            self._say(f"{self.name}: works again after {self._failures} failed steps")
        self._error, self._failures, self._completed = "", 0, self._clock()
        return pause

    def _failed(self, error: BaseException) -> float:
        why = message_of(error)
        if why != self._error:
            bug = "" if isinstance(error, LabError) else f"\n{traceback.format_exc().rstrip()}"
            self._say(f"{self.name}: {why}{bug}")
        pause = FIRST_SECONDS * 2.0 ** min(self._failures, 10)
        self._error, self._failures = why, self._failures + 1
        return min(LONGEST_SECONDS, pause)

    def _run(self) -> None:
        while not self._over.is_set():
            pause = self.once()
            (self._over if self._failures else self._wake).wait(pause)
            self._wake.clear()


class Loops:
    """All loops of one daemon."""

    def __init__(self, loops: Iterable[Loop]) -> None:
        self._loops = tuple(loops)

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    def end(self, timeout: float = 2.0) -> None:
        """End all of them, each within `timeout` seconds."""
        for loop in self._loops:
            loop.end(timeout)

    def reporting(self, app: App, about: Callable[[], Mapping[str, object]] = dict) -> App:
        """The application, with a page HEALTH: 200 while every loop does its work, else 503.

        The page is `{"status": "ok" or "stuck", "detail", "loops": [{"name", "age", "error"}]}` and what
        `about` adds: `detail` is what a person should know, the seconds are since the last completed step.
        """

        def telling(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            if environ.get("PATH_INFO") != HEALTH or environ["REQUEST_METHOD"] != "GET":
                return app(environ, start_response)
            states = [loop.state for loop in self._loops]
            problem = "; ".join(filter(None, (state.problem for state in states)))
            page = {"status": "stuck" if problem else "ok", "detail": "", **about()}
            page |= {"detail": problem} if problem else {}
            page["loops"] = [{**asdict(state), "age": round(state.age, 1)} for state in states]
            status = "503 Service Unavailable" if problem else "200 OK"
            return answer(start_response, status, json.dumps(page).encode(), "application/json")

        return telling
