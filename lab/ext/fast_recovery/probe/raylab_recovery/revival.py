"""A node whose Ray ended by itself is started again: the head always, a worker when its cluster is another.

`ray start --block` (ray 2.60) ends, and with it the node, as soon as one of its processes has died. Here it
is a child of the node's first process, the keeper, which starts it again: whoever kills, stops or freezes the
node does so to its keeper too, so a node that was ended on purpose stays down, and nobody has to be asked or
locked out before one is started.

- The head is started again whatever ended it. Its dashboard and the like are started again alone, and so is
  its control store where its state is in Redis: drivers and ranks go on.
- A worker whose head is another cluster now, or came back after the worker had given it up, is started again:
  its own raylet would wait for the lost cluster. One that failed by itself stays down, as ever, unless
  several people use it (a class): none of them may start it, and its jobs are bounded (see `crowds`).

One that ended before it was up for the first time stays down as well: whoever started it hears of that.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forkserver import launcher
from raylab_node import companion, crowds
from raylab_node.answers import ask
from raylab_switches import active

MOST_ENDS, WINDOW_SECONDS = 5, 600.0
"""Ends within that time after which a node, or a control store, stays down."""

POLL_SECONDS = 0.25
LOOK_SECONDS = 2.0
"""Time between two looks of a worker at which cluster its head is."""

AWAY_SECONDS = 5.0
"""Silence of the head after which a worker that has ended had lost it."""

LONGEST_PAUSE_SECONDS = 16.0

SHARED = "RAYLAB_CLASS"
"""Variable of a node that several people use."""

STARTS = "raylab.io/starts"
"""Label of a head that was started again: how often it was started in all."""

GCS = "gcs_server"
PARTS: Mapping[str, Callable[[Any], Any]] = {
    GCS: lambda node: node.start_gcs_server(),
    "dashboard": lambda node: node.start_api_server(
        include_dashboard=node._ray_params.include_dashboard, raise_on_failure=True
    ),
    "monitor": lambda node: node.start_monitor(),
    "log_monitor": lambda node: node.start_log_monitor(),
    "ray_client_server": lambda node: node.start_ray_client_server(),
}
"""Processes that can be started again alone, by Ray's names (PROCESS_TYPE_...), and how; first the control
store, which the others need."""

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
HANDED_ON = (*ENDING, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that are for Ray, not for its keeper."""

ORDERLY = (0, 15, -15, 143)
"""Exit codes of processes that were ended in order: Ray goes on without them."""

NAME = "raylab-keeper"


@dataclass(frozen=True)
class Life:
    """One `ray start`, from its start to its end."""

    number: int
    """Counted from 1."""
    session: str
    """Ray's name of the cluster's session; empty for a node that was never up."""
    code: int
    """Its exit code, less than 0 for a signal."""


@dataclass
class Ends:
    """Counts ends, and says how long to wait after each."""

    times: list[float] = field(default_factory=list)

    def pause(self, now: float) -> float | None:
        """Take up an end; the seconds until the next start, None if there were too many lately."""
        self.times = [*(at for at in self.times if now - at < WINDOW_SECONDS), now]
        if len(self.times) > MOST_ENDS:
            return None
        return min(0.25 * float(2 ** len(self.times)), LONGEST_PAUSE_SECONDS)


class Keeper:
    """Follows the lives of one node."""

    def __init__(
        self,
        session: Callable[[], str],
        *,
        head: bool,
        shared: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`session` asks the head which cluster it is; empty for no answer. `shared`: a node of a class."""
        self.stopping = False
        """True once the node is to end."""
        self._session, self._head, self._clock, self._sleep = session, head, clock, sleep
        self._shared = shared
        self._ends = Ends()

    def follow(self, child: Child) -> Life:
        """Wait for the end of a life. A worker of a cluster that is no more is killed."""
        session, look = "", self._clock() + LOOK_SECONDS
        while True:
            code = child.ended()
            session = session or child.said()
            if code is not None:
                return Life(child.number, session, code)
            if session and not self._head and self._clock() >= look:
                look = self._clock() + LOOK_SECONDS
                if self._session() not in ("", session):
                    say("the head is another cluster now")
                    child.send(signal.SIGKILL)
            self._sleep(POLL_SECONDS)

    def again(self, life: Life) -> bool:
        """Wait until the node is to be started again; false if it is to end."""
        if self.stopping or (life.number == 1 and not life.session):
            return False
        alone = not self._head and bool(life.session) and self._failed_alone(life.session)
        if alone and not self._shared:
            return False
        pause = self._ends.pause(self._clock())
        if pause is None:
            say(f"Ray ended {MOST_ENDS + 1} times within {WINDOW_SECONDS:g} s: it stays down")
            return False
        how = f"signal {-life.code}" if life.code < 0 else f"exit code {life.code}"
        say(f"Ray ended with {how}; it is started again{'' if self._head else ' once its head answers'}")
        self._wait(pause)
        while not (self.stopping or self._head or self._session()):
            self._sleep(LOOK_SECONDS)
        return not self.stopping

    def _failed_alone(self, session: str) -> bool:
        """Tell whether the cluster of a worker that ended is there without it."""
        end = self._clock() + AWAY_SECONDS
        while not self.stopping:
            now = self._session()
            if now or self._clock() >= end:
                return now == session
            self._sleep(POLL_SECONDS)
        return True

    def _wait(self, seconds: float) -> None:
        end = self._clock() + seconds
        while not self.stopping and self._clock() < end:
            self._sleep(POLL_SECONDS)


class Child:
    """The process of one life, as its keeper sees it."""

    def __init__(self, number: int, pid: int, pipe: int) -> None:
        """`pipe` is what it says its session by."""
        self.number, self._pid, self._pipe = number, pid, pipe
        os.set_blocking(pipe, False)

    def ended(self) -> int | None:
        """Its exit code, less than 0 for a signal; None while it runs. Other children are reaped."""
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if not ended:
                return None
            if ended == self._pid:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)

    def said(self) -> str:
        """Its session, once it is up."""
        with contextlib.suppress(OSError):
            return os.read(self._pipe, 4096).decode()
        return ""

    def send(self, number: int) -> None:
        """Signal it, while it runs."""
        if self._pid:
            os.kill(self._pid, number)

    def close(self) -> None:
        os.close(self._pipe)


class Pulse:
    """The other end, in the process of a life."""

    def __init__(self, number: int, pipe: int) -> None:
        self.number, self._pipe = number, pipe

    def beat(self, session: str) -> None:
        """Say that the node is up, once."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, session.encode())
            os.close(self._pipe)
            self._pipe = -1


def keep(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Pulse | None:
    """Make this process the keeper of its node, and return in each life of that; None with the patch off."""
    if not active("revival", environ) or not hasattr(os, "fork"):
        return None
    shared = environ.get(SHARED) == "1"
    keeper = Keeper(
        lambda: session_of(environ),
        head="--head" in arguments,
        shared=shared,
        sleep=crowds.watching(time.sleep) if shared else time.sleep,
    )
    child: Child | None = None

    def hand_on(number: int, frame: Any) -> None:
        keeper.stopping = keeper.stopping or number in ENDING
        if child is not None:
            child.send(number)

    before = {number: signal.signal(number, hand_on) for number in HANDED_ON}
    for number in itertools.count(1):
        read, write = os.pipe()
        me, pid = os.getpid(), os.fork()
        if pid == 0:
            for signum, handler in before.items():
                signal.signal(signum, handler)
            os.close(read)
            companion.end_with(me)
            return Pulse(number, write)
        os.close(write)
        child = Child(number, pid, read)
        if keeper.stopping:  # before there was a child to tell
            child.send(signal.SIGTERM)
        launcher.call_self(NAME)
        life = keeper.follow(child)
        child.close()
        if not keeper.again(life):
            launcher.end(life.code)
    raise AssertionError("there is always another number")


def session_of(environ: Mapping[str, str]) -> str:
    """The session of the cluster that the head is now; empty when it does not answer."""
    try:
        token = Path(environ["RAY_AUTH_TOKEN_PATH"]).read_text().strip()
        url = f"{environ['RAY_API_SERVER_ADDRESS']}/api/version"
        answer = json.loads(ask(url, {"Authorization": f"Bearer {token}"}))
        return str(answer.get("session_name") or "")
    except (OSError, ValueError, KeyError, AttributeError):
        return ""


# In a life


def install(node: Any, pulse: Pulse, *, kept: bool) -> None:
    """Let Ray's class Node say when it is up, which is when its end is first looked for.

    What can be started again alone is, and does not end the node; with `kept` its control store, whose state
    outlives it, too.
    """
    look: Callable[[Any], list[tuple[str, Any]]] = node.dead_processes
    ends = Ends()

    def dead_processes(self: Any) -> list[tuple[str, Any]]:
        pulse.beat(self.session_name)
        dead = look(self)
        names = {name for name, process in dead if process.returncode not in ORDERLY}
        alone = [name for name in PARTS if name in names and (kept or name != GCS)]
        if not alone or names.difference(alone) or ends.pause(time.monotonic()) is None:
            return dead
        for name in alone:
            start_again(self, name)
        return []

    node.dead_processes = dead_processes


def start_again(node: Any, name: str) -> None:
    """Start a process of a node again, at its address."""
    say(f"{name} has ended; it is started again")
    del node.all_processes[name]
    if name == GCS:
        node._gcs_address = node._gcs_client = None
    PARTS[name](node)


def labels(arguments: list[str], number: int) -> list[str]:
    """The arguments of `ray start` in the life with this number: those of a head tell it."""
    tells = number > 1 and "--head" in arguments
    return [*arguments, f"--labels={STARTS}={number}"] if tells else arguments


def say(text: str) -> None:
    """Write one line to the node's log."""
    companion.say(f"{time.strftime('%H:%M:%S')} {NAME}: {text}")
