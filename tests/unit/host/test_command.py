"""A command read while it runs. Its process is short: what is tested is the pipe and how it ends."""

from __future__ import annotations

import os
import queue
import subprocess
import sys

import pytest

from lab.host.command import DRAIN_SECONDS, lines_until_end, run, start, stream

TALKS = (
    "import sys; print('one'); print('two', file=sys.stderr, flush=True); print('three', end=''); sys.exit(3)"
)
STAYS = "import sys, time; print('here', flush=True); time.sleep(600)"
BRIEF = "import time; time.sleep(4)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STAYS}"


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", code]


def test_each_line_of_both_streams_is_given_and_the_whole_is_kept() -> None:
    lines: list[str] = []
    ended = stream(python(TALKS), lines.append, timeout=60, env=os.environ)
    assert lines == ["one", "two", "three"]
    assert (ended.returncode, ended.stdout) == (3, "one\ntwo\nthree")


def test_lines_come_while_the_command_runs_and_an_error_of_the_reader_ends_it() -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    endless = "import os, threading; print(os.getpid(), flush=True); threading.Event().wait()"
    with pytest.raises(KeyboardInterrupt):
        stream(python(endless), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_at_its_deadline_a_command_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        stream(python("import time; time.sleep(600)"), lambda _: None, timeout=0.3, env=os.environ)


def test_a_command_that_does_not_want_to_end_is_killed() -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream(python(STUBBORN), interrupt, timeout=60, env=os.environ, grace=0.2)


def test_a_child_that_holds_the_output_does_not_hold_up_the_end() -> None:
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BRIEF!r}]); print('done')"
    lines: list[str] = []
    ended = stream(python(child), lines.append, timeout=60, env=os.environ)
    assert ended.returncode == 0
    assert "done" in lines


def test_a_command_that_is_not_there_says_so() -> None:
    with pytest.raises(FileNotFoundError):
        stream(["no-such-command-here"], lambda _: None, timeout=1, env=os.environ)


class Chatter(queue.SimpleQueue[str | None]):
    """Always has a line; a look at it takes a tenth of a second of its own clock."""

    now = 0.0

    def get(self, block: bool = True, timeout: float | None = None) -> str | None:
        self.now += 0.1
        assert self.now < 60, "it is read for ever"
        return "x\n"


def test_a_command_that_prints_steadily_meets_its_deadline() -> None:
    lines = Chatter()
    with pytest.raises(subprocess.TimeoutExpired):
        list(lines_until_end(lines, lambda: False, 5.0, clock=lambda: lines.now))
    assert 5 <= lines.now < 5.2


def test_a_chatty_descendant_does_not_hold_up_the_end() -> None:
    lines = Chatter()
    assert list(lines_until_end(lines, lambda: lines.now >= 3, 100.0, clock=lambda: lines.now))
    assert 3 + DRAIN_SECONDS <= lines.now < 3.3 + DRAIN_SECONDS


def test_what_a_command_has_said_before_it_ended_is_given_however_slow_the_reader_is() -> None:
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for number in range(5):
        lines.put(str(number))
    now = [0.0]
    given = []
    for line in lines_until_end(lines, lambda: True, 1.0, clock=lambda: now[0]):
        given.append(line)
        now[0] += 3 * DRAIN_SECONDS
        lines.put("from a descendant, later")
    assert given[:5] == ["0", "1", "2", "3", "4"]
    assert len(given) == 6


def test_a_silent_command_is_said_to_be_silent() -> None:
    class Silence(queue.SimpleQueue[str | None]):
        def get(self, block: bool = True, timeout: float | None = None) -> str | None:
            raise queue.Empty

    looks: list[str] = []
    given = lines_until_end(
        Silence(),
        lambda: False,
        3.0,
        clock=lambda: float(len(looks)),
        on_silence=lambda: looks.append("silent"),
    )
    with pytest.raises(subprocess.TimeoutExpired):
        list(given)
    assert len(looks) == 3


def test_the_deadline_of_a_chatty_command_ends_it() -> None:
    code = "while True: print('still here')"
    with pytest.raises(subprocess.TimeoutExpired):
        stream(python(code), lambda _: None, timeout=0.3, env=os.environ)


def test_a_command_gets_no_input_and_a_session_of_its_own() -> None:
    program = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))"
    ended = run([sys.executable, "-c", program], timeout=60, env=os.environ)
    assert ended.stdout == "True ''\n"


def test_a_descriptor_is_inherited_only_if_it_is_passed() -> None:
    reader, writer = os.pipe()
    program = f"import os, sys; os.write({writer}, b'x')"
    assert stream(python(program), lambda _: None).returncode
    assert stream(python(program), lambda _: None, pass_fds=[writer]).returncode == 0
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    os.close(writer)


def test_at_the_deadline_a_command_ends_with_what_it_started() -> None:
    program = "import subprocess; subprocess.run(['sleep', '600'])"
    with pytest.raises(subprocess.TimeoutExpired):
        run([sys.executable, "-c", program], timeout=0.01, env=os.environ)


def test_what_is_run_is_told_before(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lab.host.command")
    run(["true", "two words"], timeout=60)
    stream(["true", "it's"], lambda line: None, timeout=60, env=os.environ)
    with pytest.raises(FileNotFoundError):
        start(["no-such-command"])
    assert caplog.messages == ["true 'two words'", "true 'it'\"'\"'s'", "no-such-command"]
