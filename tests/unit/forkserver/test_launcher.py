"""What a launcher says of the process that is wanted, and how it stands for it."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forkserver import launcher, refusal
from forkserver.conversation import Conversation
from forkserver.reads import Reads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux")


def test_a_process_could_take_on_what_another_one_like_it_has() -> None:
    asked = launcher.describe([sys.executable, "-m", "x"])
    own = {**launcher.describe([]), "environment": dict(os.environ)}
    doubt = refusal.reason(
        asked, executable=sys.executable, flags=(), own=own, known=(), loaded=(), read=Reads()
    )
    assert doubt == ""
    assert {"affinity", "oom_score", "scheduler", "standing", "comm"} <= asked.keys()


def test_signals_that_are_ignored_are_described_but_for_those_that_python_ignores() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        ignored = launcher.describe([])["ignored"]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert signal.SIGUSR1 in ignored
    assert signal.SIGPIPE not in ignored


@contextmanager
def talking() -> Iterator[tuple[launcher.Fork, socket.socket]]:
    """A launcher's side of a fork, and the server's."""
    one, other = socket.socketpair()
    with one, other:
        yield launcher.Fork(one, 4711), other


@pytest.mark.parametrize(("said", "code"), [(b"end 0\n", 0), (b"end -9\n", -9), (b"", -9)])
def test_a_launcher_whose_fork_has_ended_says_goodbye(said: bytes, code: int) -> None:
    with talking() as (fork, server):
        server.sendall(said)
        server.shutdown(socket.SHUT_WR)
        assert fork.wait() == code
        server.setblocking(False)
        assert (server.recv(100) if said else launcher.BYE) == launcher.BYE


def test_descriptors_come_with_a_line_however_it_is_cut() -> None:
    one, other = socket.socketpair()
    read, write = os.pipe()
    with one, other:
        socket.send_fds(other, [b"pid 4"], [read])
        other.sendall(b"711\nend 0\n")
        line, rest, received = launcher._line(one, b"")
        assert line == "pid 4711"
        assert b"end 0\n".startswith(rest)
        os.write(write, b"x")
        assert os.read(received[0], 1) == b"x"
    for number in (read, write, *received):
        os.close(number)


def test_a_fork_that_lives_is_handed_on_to_the_servers_next_program() -> None:
    (connection, launchers), (guard, forks) = socket.socketpair(), socket.socketpair()
    talk = Conversation(connection)
    talk.pid, talk.guard = 4711, guard
    word = talk.handed_on()
    assert os.get_inheritable(connection.fileno())
    assert os.get_inheritable(guard.fileno())
    numbers = connection.detach(), guard.detach()
    after = Conversation.taken_over(word)
    assert (after.pid, after.connection.fileno()) == (4711, numbers[0])
    assert not os.get_inheritable(numbers[0])
    after.say("end 0")
    assert launchers.recv(100) == b"end 0\n"
    after.close()
    assert launchers.recv(100) == forks.recv(100) == b""
    launchers.close()
    forks.close()
