"""Stands in for a process that a fork server makes: asks for it, forwards signals, ends as it ends.

    python -I -S launcher.py FOLDER LEVELS PYTHON ARGUMENT...

FOLDER holds the servers' sockets, LEVELS names them in the order in which they are asked (`train,node`). The
rest is the command that is wanted. Whatever stands in the way of a fork (no server, no answer within
PATIENCE_SECONDS, a refusal) makes this process become that command in the ordinary way.

The process that asked for the command sees the launcher: its exit code, or the signal that ended it, is that
of the fork; signals are handed on; when it is killed, the server kills the fork and what that has started, or
the kernel its process group where the server is gone. While the fork lives the launcher is called `fork:PID`,
by which those who look for a node's processes find it.

This file is run without `site`, and imports hardly anything that is written in Python: with `socket`, `json`
and `contextlib` each start of a process of Ray would cost 10 ms more of a core, which is half as much again.
"""

from __future__ import annotations

import _socket
import marshal
import os
import signal
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

PATIENCE_SECONDS = 1.0
"""Timeout for a server's answer to a request; a frozen one gives none."""

FORK_SECONDS = 5.0
"""Timeout for the fork once the server has agreed."""

MOST_DESCRIPTORS = 200
"""The kernel takes 253 in one message; nobody who has more open is forked."""

INT_BYTES = 4
"""Size of a descriptor in such a message."""

NAME = "fork:"
"""Prefix of a launcher's name while its fork lives; the fork's process id follows."""

OWN = ("SIGKILL", "SIGSTOP", "SIGCONT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCHLD", "SIGWINCH", "SIGURG")
"""Signals that concern the launcher itself, or cannot be handed on."""

FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
"""Signals that the kernel sends for an error of the launcher."""

ENDING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
"""Signals that end a process: once the fork has ended by one, so does the rest of its process group, as those
do that share a group with a process that was started in the ordinary way."""

IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")

CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
OF_STATUS = ("Uid", "Gid", "Groups", *CAPABILITIES, "NoNewPrivs", "Seccomp")
"""Lines of /proc/self/status with what a process cannot give itself."""

BYE = b"bye\n"
"""Last message to the server, of a launcher whose fork has ended: one that was killed sends none."""


def socket_of(folder: str, level: str) -> str:
    """The socket of the server of this level."""
    return os.path.join(folder, f"{level}.sock")


def describe(argv: Sequence[str], **more: Any) -> dict[str, Any]:
    """Describe the process that is wanted: everything that it would inherit from the one that starts it."""
    import resource

    limits = {}
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            limits[name] = list(resource.getrlimit(getattr(resource, name)))
    umask = os.umask(0o77)
    os.umask(umask)
    return {
        "argv": list(argv),
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "umask": umask,
        "limits": limits,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "oom_score": int(_content("/proc/self/oom_score_adj") or 0),
        "standing": standing(),
        "blocked": sorted(int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "ignored": [
            int(number)
            for number in signal.valid_signals() - numbers(IGNORED_BY_PYTHON)
            if signal.getsignal(number) is signal.SIG_IGN
        ],
        "comm": _content("/proc/self/comm").rstrip("\n"),
        **more,
    }


def standing() -> list[str]:
    """The user, rights and namespaces of this process, a line each: none of it can a fork take on."""
    lines = [f"{name} {os.readlink(f'/proc/self/ns/{name}')}" for name in sorted(os.listdir("/proc/self/ns"))]
    lines += [line for line in _content("/proc/self/status").splitlines() if line.split(":")[0] in OF_STATUS]
    return [*lines, f"root {os.readlink('/proc/self/root')}"]


def numbers(names: Sequence[str]) -> set[int]:
    """The numbers of the signals of these names."""
    return {int(getattr(signal, name)) for name in names}


def _content(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def descriptors() -> list[int]:
    """Descriptors that the command would inherit: those that are open and not closed on exec."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:  # that of the listing itself
            continue
    return sorted(found)


class RefusedError(Exception):
    """No fork was made, for the reason given."""


class SilentError(RefusedError):
    """The server has not answered in time; another one is not asked then, or the wait would add up."""


class Fork:
    """A fork that was asked for."""

    def __init__(
        self, connection: _socket.socket, pid: int, rest: bytes = b"", guards: Sequence[int] = ()
    ) -> None:
        """`guards` are descriptors that this process keeps open: the fork ends when nobody has them open."""
        self.pid = pid
        self.kept = {connection.fileno(), *guards}
        self._connection, self._rest = connection, rest

    def wait(self) -> int:
        """Its exit code, or less than 0 for the signal that ended it. Signals are handled meanwhile."""
        while b"\n" not in self._rest:
            try:
                more = self._connection.recv(256)
            except OSError:
                more = b""
            if not more:  # server and fork are gone, and it could not say how it ended
                return -int(signal.SIGKILL)
            self._rest += more
        self._say_goodbye()
        return int(self._rest.split(b"\n", 1)[0].split()[1])

    def _say_goodbye(self) -> None:
        try:
            self._connection.send(BYE)
        except OSError:
            return  # the server is gone


def ask(folder: str, level: str, request: Mapping[str, Any], fds: Sequence[int]) -> Fork:
    """Ask the server of this level for a fork. Raises RefusedError, in which case there is none."""
    if len(fds) > MOST_DESCRIPTORS:
        raise RefusedError(f"{len(fds)} open descriptors")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_SECONDS)
    try:
        connection.connect(socket_of(folder, level))
        body = marshal.dumps({**request, "descriptors": list(fds)})
        connection.sendall(len(body).to_bytes(8, "big") + body)
        answer, rest, _ = _line(connection, b"")
        if answer != "ready":
            raise RefusedError(answer or "the server has closed the connection")
        # Not before: what is on its way to a server that is frozen stays open as long as that is.
        packed = b"".join(number.to_bytes(INT_BYTES, sys.byteorder) for number in fds)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if fds else []
        connection.sendmsg([b"go\n"], rights)
        connection.settimeout(FORK_SECONDS)
        answer, rest, guards = _line(connection, rest)
        if not answer.startswith("pid "):
            raise RefusedError(answer or "the server has closed the connection")
        connection.settimeout(None)
        return Fork(connection, int(answer.split()[1]), rest, guards)
    except TimeoutError as error:
        connection.close()
        raise SilentError("the server does not answer") from error
    except (OSError, ValueError) as error:
        connection.close()
        raise RefusedError(f"no server: {error}") from error
    except RefusedError:
        connection.close()
        raise


def first(folder: str, levels: Sequence[str], request: Mapping[str, Any]) -> Fork | None:
    """A fork by the first of these servers that makes one; None for a start in the ordinary way."""
    inherited = descriptors()
    for level in levels:
        try:
            return ask(folder, level, request, inherited)
        except SilentError:
            return None
        except RefusedError:
            continue
    return None


def _line(connection: _socket.socket, data: bytes) -> tuple[str, bytes, list[int]]:
    """The next line, what came behind it, and descriptors that came with it; no line where all ends."""
    received: list[int] = []
    while b"\n" not in data:
        more, ancillary, _, _ = connection.recvmsg(4096, _socket.CMSG_SPACE(INT_BYTES))
        for _, _, packed in ancillary:
            received.append(int.from_bytes(packed[:INT_BYTES], sys.byteorder))
        if not more:
            return "", b"", received
        data += more
    line, rest = data.split(b"\n", 1)
    return line.decode(), rest, received


def stand_for(fork: Fork) -> NoReturn:
    """Stand in for the fork until it ends, and end as it did."""
    ending: list[int] = []

    def hand_on(number: int, frame: Any) -> None:
        if number in numbers(ENDING):
            ending.append(number)
        try:
            os.kill(fork.pid, number)
        except ProcessLookupError:
            return  # it has just ended

    for handled in signal.valid_signals() - numbers((*OWN, *FAULTS, *IGNORED_BY_PYTHON)):
        if signal.getsignal(handled) is not signal.SIG_IGN:
            signal.signal(handled, hand_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    call_self(f"{NAME}{fork.pid}")
    for descriptor in descriptors():  # who reads what they lead to is to wait for the fork alone
        if descriptor not in fork.kept:
            os.close(descriptor)
    code = fork.wait()
    for number in ending[-1:]:
        try:
            os.killpg(fork.pid, number)
        except OSError:
            continue  # nothing is left of it
    end(code)


def end(code: int) -> NoReturn:
    """End with this exit code, or by this signal (less than 0) as the fork did."""
    if code < 0:
        import resource

        number = -code
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        code = 128 + number  # a signal that does not end a process by itself
    os._exit(code)


def call_self(name: str) -> None:
    """Let `ps` show this name (at most 15 characters) for the process."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(name)
    except OSError:
        return


def main(argv: Sequence[str]) -> NoReturn:
    folder, levels, command = argv[0], argv[1], list(argv[2:])
    if sys.platform == "linux":
        try:
            fork = first(folder, levels.split(","), describe(command))
        except OSError:  # a working directory that is gone, say: the command will find out
            fork = None
        if fork is not None:
            stand_for(fork)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
