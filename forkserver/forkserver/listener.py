"""Server of one level: listens to those who want a fork, forks, and reaps.

It answers a request (`launcher.ask`) with `ready`, or `no` and the reason. With `go` come the descriptors; it
forks, says `pid N`, and `end CODE` when the fork has ended. A launcher that goes away takes its fork with it,
and what that has started.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback

from forkserver import child, launcher, log, preload, refusal, threads, tree
from forkserver.application import DEFAULT, Application
from forkserver.conversation import Conversation

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from forkserver.installed import Installed
    from forkserver.marks import Marks
    from forkserver.reads import Reads

RETIRE = signal.SIGHUP
"""Signal to a server that it is outdated."""

MOST_BYTES = 8 * 1024 * 1024
"""Largest request; environment and arguments of a process are at most 2 MiB on Linux."""

MOST_DESCRIPTORS = 256
"""Limit of descriptors in one message: the kernel sends 253."""

REST_SECONDS = 0.1
"""Pause after an error that no launcher is to blame for, such as too many open files."""


class Listener:
    """Listens at one level, forks, reaps. In a fork `serve` returns what `program.run` needs.

    Once packages were added to the environment, or removed, it forks no more: what it has imported may be
    another version, or have found out that something is not there. It looks after the forks that it has.
    """

    def __init__(
        self,
        level: str,
        folder: str,
        places: Marks | None,
        base_path: Sequence[str],
        environment: dict[str, str],
        read: Reads,
        installed: Installed,
        application: Application = DEFAULT,
    ) -> None:
        self._folder, self._level, self._marks = folder, level, places
        self._application = application
        self._base_path, self._read = list(base_path), read
        self._own = {**launcher.describe([]), "environment": environment}
        self._installed, self.outdated = installed, False
        self._known = frozenset({*base_path, *environment.get("PYTHONPATH", "").split(os.pathsep)})
        self._pools = threads.Pools()
        self._loaded: frozenset[str] = frozenset()
        self._selector = selectors.DefaultSelector()
        self._talks: dict[int, Conversation] = {}
        self._forks: dict[int, Conversation] = {}
        self._listener: socket.socket | None = None
        self._wake: tuple[int, int] = (-1, -1)
        self._trouble = ""

    def listen(self) -> None:
        """Begin to listen. Raises RuntimeError when this process cannot be forked, OSError."""
        self._pools.look()
        why = preload.unfit()
        if why:
            raise RuntimeError(why)
        self._loaded = frozenset(preload.top_level())
        gc.collect()
        gc.freeze()
        path = launcher.socket_of(self._folder, self._level)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        draft = f"{path}.{os.getpid()}"
        listener.bind(draft)
        os.chmod(draft, 0o600)
        listener.listen(128)
        listener.setblocking(False)
        os.rename(draft, path)
        self._listener = listener
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._wake = (read, write)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(RETIRE, self._outdate)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(read, selectors.EVENT_READ, self._woken)
        log(f"{self._level}: ready, {len(sys.modules)} modules")

    def serve(
        self,
        on_end: Callable[[int, int], None] = lambda pid, code: None,
        on_outdated: Callable[[], None] = lambda: None,
        on_forks: Callable[[int], None] = lambda count: None,
    ) -> Any:
        """Serve for ever. `on_end` is told of children that are no forks of a launcher's.

        `on_outdated` is called once nothing is forked any more, after each event; `on_forks` is told how many
        forks live, at first and when that changes.
        """
        self._on_end, self._on_forks, server = on_end, on_forks, os.getpid()
        on_forks(len(self._forks))
        self._woken()  # children may have ended before
        while True:
            for key, _ in self._selector.select():
                try:
                    forked = key.data() if callable(key.data) else self._hear(key.data)
                except Exception as error:  # the trouble of one launcher must not become that of all
                    if os.getpid() != server:
                        raise
                    self._troubled(key.data, repr(error))
                    continue
                if forked is not None:
                    return forked
            if self.outdated:
                on_outdated()

    def retire(self) -> bool:
        """Take no more requests; whether there is no fork left to look after."""
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        return not self._talks

    def handed_on(self) -> list[str]:
        """The forks that live, for the program that takes this one's place; other launchers are refused."""
        talks = list(self._talks.values())
        for talk in talks:
            if talk.guard is None:
                self._drop(talk, "no the server is renewed")
        return [talk.handed_on() for talk in talks if talk.pid]

    def take_over(self, words: Sequence[str]) -> None:
        """Look after the forks of the program that had this one's place."""
        for talk in map(Conversation.taken_over, words):
            self._talks[talk.connection.fileno()] = self._forks[talk.pid] = talk
            self._selector.register(talk.connection, selectors.EVENT_READ, talk)

    def _outdate(self, *of_signal: object) -> None:
        self.outdated = True

    def _troubled(self, who: Any, why: str) -> None:
        """Give up the launcher that made trouble; where there is none, rest before the next try."""
        if why != self._trouble:
            log(f"{self._level}: {why}")
        self._trouble = why
        if isinstance(who, Conversation):
            self._gone(who)
        else:
            time.sleep(REST_SECONDS)

    # Launchers

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError, InterruptedError):
            connection, _ = self._listener.accept()
            if _peer(connection) not in (os.getuid(), 0):
                connection.close()
                return
            connection.setblocking(False)
            talk = Conversation(connection)
            self._talks[connection.fileno()] = talk
            self._selector.register(connection, selectors.EVENT_READ, talk)

    def _hear(self, talk: Conversation) -> Any:
        """Read what has come from a launcher, or notice that it is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(talk.connection, 65536, MOST_DESCRIPTORS)
        except BlockingIOError:
            return None
        except OSError:
            data, descriptors = b"", []
        talk.received += descriptors
        if not data:
            self._gone(talk)
            return None
        talk.data += data
        if talk.request is None:
            self._read_request(talk)
        elif talk.guard is None and b"go\n" in talk.data:
            return self._fork(talk)
        elif talk.data.endswith(launcher.BYE):  # the fork is about to end, or has: it is not killed
            talk.pid = 0
        return None

    def _read_request(self, talk: Conversation) -> None:
        if len(talk.data) < 8:
            return
        size = int.from_bytes(talk.data[:8], "big")
        if size > MOST_BYTES:
            self._drop(talk, "no the request is too large")
            return
        if len(talk.data) < 8 + size:
            return
        try:
            request = marshal.loads(talk.data[8 : 8 + size])
            why = self._reason(request)
        except (ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
            request, why = {}, f"no request that is understood: {error!r}"
        if why:
            log(f"{self._level}: not forked, {why}")
            self._drop(talk, f"no {why}")
            return
        talk.request, talk.data = request, talk.data[8 + size :]
        try:
            talk.say("ready")
        except OSError:
            self._gone(talk)

    def _reason(self, request: dict[str, Any]) -> str:
        if self._installed.changed():
            self._outdate()
            return "packages were added or removed"
        own = {number for number in request["descriptors"] if number > 2 and _is_open(number)}
        if own - self._serving():
            return f"descriptor {min(own - self._serving())} is in use here"
        return preload.spoilt() or refusal.reason(
            request,
            executable=sys.executable,
            flags=tuple(sys.flags),
            own=self._own,
            known=self._known,
            loaded=self._loaded,
            read=self._read,
            application=self._application,
        )

    def _serving(self) -> set[int]:
        """The descriptors that a fork gives up: those of the server's own work."""
        own = {self._selector.fileno(), *self._wake, *self._talks}
        for talk in self._talks.values():
            own |= {*talk.received, *([talk.guard.fileno()] if talk.guard is not None else ())}
        if self._listener is not None:
            own.add(self._listener.fileno())
        return own

    def _drop(self, talk: Conversation, last_word: str) -> None:
        with contextlib.suppress(OSError):
            talk.say(last_word[:3000].replace("\n", " "))
        self._forget(talk)

    def _gone(self, talk: Conversation) -> None:
        """Kill the fork of a launcher that was killed, or does not want it any more."""
        pid = talk.pid
        self._forget(talk)
        if pid:
            tree.end_tree(pid)

    def _forget(self, talk: Conversation) -> None:
        number = talk.connection.fileno()
        if number in self._talks:
            self._selector.unregister(talk.connection)
            del self._talks[number]
        talk.close()

    # Forks

    def _fork(self, talk: Conversation) -> Any:
        assert talk.request is not None
        if len(talk.request["descriptors"]) != len(talk.received):
            self._drop(talk, "no descriptors were lost")
            return None
        try:
            talk.guard, guarded = socket.socketpair()
            pid = os.fork()
        except OSError as error:
            log(f"{self._level}: cannot fork: {error}")
            self._drop(talk, f"no {error}")
            return None
        if pid == 0:
            return self._be(talk, guarded)
        guarded.close()
        talk.pid = pid
        self._forks[pid] = talk
        self._on_forks(len(self._forks))
        for number in talk.received:
            os.close(number)
        talk.received = []
        try:
            socket.send_fds(talk.connection, [b"pid %d\n" % pid], [talk.guard.fileno()])
        except OSError:
            self._gone(talk)
        return None

    def _be(self, talk: Conversation, guarded: socket.socket) -> Any:
        """Become the process that was asked for, in the fork, without what is the server's."""
        assert talk.request is not None
        assert talk.guard is not None
        try:
            self.give_up(talk)
            talk.guard.close()
            received, talk.received = talk.received, []
            return child.become(
                talk.request,
                received,
                (talk.connection, guarded),
                self._marks,
                self._pools,
                self._base_path,
                self._folder,
                self._application.prepare,
            )
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def give_up(self, kept: Conversation | None = None) -> None:
        """Close what is the server's, in a fork, except for one conversation."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for number in self._wake:
            if number >= 0:
                os.close(number)
        if self._listener is not None:
            self._listener.close()
        for talk in self._talks.values():
            if talk is not kept:
                talk.close()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            talk = self._forks.pop(pid, None)
            if talk is None:
                self._on_end(pid, code)
                continue
            self._on_forks(len(self._forks))
            talk.pid = 0
            with contextlib.suppress(OSError):
                talk.say(f"end {code}")
            self._forget(talk)


def _peer(connection: socket.socket) -> int:
    """User id of the process that has connected."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
