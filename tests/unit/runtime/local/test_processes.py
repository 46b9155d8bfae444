"""Which processes are a service's, and how they are ended, over a process table of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from lab.runtime.local import processes
from lab.runtime.local.processes import MARK, Identity
from tests.fakes import FakeClock

UID = os.getuid()


@dataclass
class Entry:
    """A line of the process table, with psutil's methods."""

    pid: int
    started_at: float
    sid: int
    mark: str = ""
    uid: int = UID
    state: str = psutil.STATUS_SLEEPING
    parent: int = 1
    stubborn: bool = False
    secret: bool = False
    table: Any = field(default=None, repr=False)
    got: list[signal.Signals] = field(default_factory=list)
    name: str = "python"

    @property
    def info(self) -> dict[str, Any]:
        return {"ppid": self.parent, "status": self.state, "uids": self.uids(), "name": self.name}

    def status(self) -> str:
        return self.state

    def is_running(self) -> bool:
        return self.table.entries.get(self.pid) is self

    def uids(self) -> Any:
        return SimpleNamespace(real=self.uid)

    def environ(self) -> dict[str, str]:
        if self.secret:
            raise psutil.AccessDenied(self.pid)
        return {MARK: self.mark} if self.mark else {}

    def send_signal(self, number: signal.Signals) -> None:
        self.got.append(number)
        if number == signal.SIGCONT and self.state == psutil.STATUS_STOPPED:
            self.state = psutil.STATUS_SLEEPING
            if signal.SIGTERM in self.got and not self.stubborn:
                self.table.kill(self)
        elif number == signal.SIGTERM and self.state == psutil.STATUS_STOPPED:
            pass  # it waits until the process goes on
        elif number == signal.SIGKILL or (number == signal.SIGTERM and not self.stubborn):
            self.table.kill(self)
        elif number == signal.SIGSTOP:
            self.state = psutil.STATUS_STOPPED


@dataclass
class Table:
    """All processes; `newborn` appear when the first is killed."""

    entries: dict[int, Entry] = field(default_factory=dict)
    newborn: list[Entry] = field(default_factory=list)
    clock: Any = None

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            entry.table = self
            self.entries[entry.pid] = entry

    def kill(self, entry: Entry) -> None:
        self.entries.pop(entry.pid, None)
        self.add(*self.newborn)
        self.newborn = []

    def process(self, pid: int) -> Entry:
        if pid not in self.entries:
            raise psutil.NoSuchProcess(pid)
        return self.entries[pid]

    def getsid(self, pid: int) -> int:
        return self.process(pid).sid

    def pids(self, entries: list[Any]) -> set[int]:
        return {entry.pid for entry in entries}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(psutil, "Process", table.process)
    monkeypatch.setattr(psutil, "process_iter", lambda attrs: list(table.entries.values()))
    now = [0.0]
    table.clock = SimpleNamespace(
        monotonic=lambda: now[0],
        sleep=lambda seconds: now.__setitem__(0, now[0] + seconds),
        time=lambda: 1_700_000_000.0 + now[0],
    )
    monkeypatch.setattr(processes, "time", table.clock)
    monkeypatch.setattr(processes, "start_time", lambda pid: table.process(pid).started_at)
    monkeypatch.setattr(os, "getsid", table.getsid)
    return table


LEADER = Identity(100, 50.0)
SERVICE = "/labs/raylab:ray-worker-0"
JUPYTER = "/labs/raylab:jupyter"


def service() -> list[Entry]:
    """A leader, a child in the session, one that left the session, and one that hides its environment."""
    return [
        Entry(100, 50.0, 100, SERVICE),
        Entry(101, 51.0, 100, SERVICE, parent=100),
        Entry(102, 52.0, 102, SERVICE, parent=1),
        Entry(103, 53.0, 100, "", parent=1),
        Entry(104, 53.0, 104, "", parent=103),
    ]


def strangers() -> list[Entry]:
    return [
        Entry(1, 0.0, 1, uid=UID + 1),
        Entry(200, 60.0, 200, "/labs/other:ray-worker-0"),
        Entry(201, 60.0, 200),
        Entry(202, 60.0, 202, secret=True),
        Entry(203, 60.0, 203, "/labs/raylab:ray-worker-1"),
    ]


def test_a_process_is_known_by_its_id_and_its_start(table: Table) -> None:
    table.add(Entry(100, 50.0, 100))

    for known in (LEADER, Identity(100, 50.01)):
        process = processes.find(known)
        assert process is not None
        assert process.pid == 100
    assert processes.find(Identity(100, 49.0)) is None
    assert processes.find(Identity(99, 50.0)) is None


def test_a_zombie_does_not_live(table: Table) -> None:
    table.add(Entry(os.getpid() + 10**6, 50.0, 1, state=psutil.STATUS_ZOMBIE))

    assert processes.find(Identity(os.getpid() + 10**6, 50.0)) is None


def test_members_are_the_session_the_marked_and_their_descendants(table: Table) -> None:
    table.add(*service(), *strangers())

    assert table.pids(processes.members(LEADER, SERVICE)) == {100, 101, 102, 103, 104}


def test_a_node_that_a_notebook_started_is_not_jupyters(table: Table) -> None:
    jupyter, kernel, shell = (
        Entry(100, 50.0, 100, JUPYTER),
        Entry(101, 51.0, 101, JUPYTER, parent=100),
        Entry(102, 52.0, 102, "", parent=101),
    )
    node, raylet = Entry(110, 60.0, 110, SERVICE, parent=101), Entry(111, 61.0, 111, "", parent=110)
    table.add(jupyter, kernel, shell, node, raylet)

    assert table.pids(processes.members(LEADER, JUPYTER)) == {100, 101, 102}
    assert table.pids(processes.members(Identity(110, 60.0), SERVICE)) == {110, 111}


def test_what_a_fork_server_made_belongs_to_whom_its_launcher_stands_for(table: Table) -> None:
    server, mine, theirs = 300, 400, 500
    table.add(
        *service(),
        Entry(105, 54.0, 100, SERVICE, parent=101, name=f"fork:{mine}"),
        Entry(server, 40.0, server),
        Entry(mine, 54.1, server, parent=server),
        Entry(401, 55.0, server, parent=mine),  # made by the fork without a program of its own
        Entry(402, 55.0, 402, JUPYTER, parent=mine),
        Entry(theirs, 54.1, server, parent=server),
    )
    pids = table.pids(processes.members(LEADER, SERVICE))
    assert {105, mine, 401} <= pids
    assert not {server, theirs, 402} & pids


def test_forks_for_which_nobody_stands_are_orphans_of_their_lab(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add(
        Entry(105, 54.0, 100, SERVICE, name="fork:400"),
        Entry(400, 54.1, 300),
        Entry(401, 55.0, 300, parent=400),  # made by the fork without a program of its own
        Entry(500, 54.1, 300),  # its launcher has died with the server
        Entry(501, 55.0, 300, parent=500),
        Entry(600, 54.1, 301),
        Entry(601, 54.1, 301, name="fork:999"),
    )
    labs = {**dict.fromkeys((400, 401, 500, 501), "/labs/raylab"), 600: "/labs/other"}
    monkeypatch.setattr(processes, "_mark", lambda process, variable: labs.get(process.pid, ""))
    assert table.pids(processes.orphans_of(Path("/labs/raylab"))) == {500, 501}


@pytest.mark.parametrize("name", ["fork:", "fork:x", "fork:999", "fork:-1", "xfork:400", "fork:400"])
def test_a_name_that_leads_to_nobody_or_to_somebody_older_is_none(table: Table, name: str) -> None:
    table.add(Entry(100, 50.0, 100, SERVICE, name=name), Entry(400, 10.0, 400))
    assert table.pids(processes.members(LEADER, SERVICE)) == {100}


def test_members_are_found_when_the_leader_has_died(table: Table) -> None:
    table.add(*service()[1:], *strangers())

    assert table.pids(processes.members(LEADER, SERVICE)) == {101, 102, 103, 104}


def test_without_a_known_leader_the_mark_alone_decides(table: Table) -> None:
    table.add(*service(), *strangers())

    assert table.pids(processes.members(None, SERVICE)) == {100, 101, 102}


def test_by_mark_are_the_marked_and_what_descends_from_them_without_a_mark(table: Table) -> None:
    fled = Entry(105, 54.0, 105, SERVICE, parent=1)
    plain = (Entry(106, 55.0, 105, "", parent=105), Entry(107, 56.0, 105, "", parent=106))
    other = (Entry(110, 60.0, 110, JUPYTER, parent=106), Entry(111, 61.0, 110, "", parent=110))
    theirs, me = Entry(300, 60.0, 1, SERVICE, uid=UID + 1), Entry(os.getpid(), 60.0, 1, SERVICE)
    table.add(*other, *plain, fled, Entry(100, 50.0, 100, SERVICE), theirs, me, Entry(201, 60.0, 200))
    groups = processes.by_mark()
    assert {mark: table.pids(group) for mark, group in groups.items()} == {
        SERVICE: {100, 105, 106, 107},
        JUPYTER: {110, 111},
    }


def test_the_session_of_whoever_has_the_leaders_id_now_is_not_the_services(table: Table) -> None:
    table.add(Entry(100, 900.0, 100), Entry(105, 901.0, 100, parent=100), Entry(102, 52.0, 102, SERVICE))

    assert table.pids(processes.members(LEADER, SERVICE)) == {102}


def test_a_session_that_is_older_than_the_leader_is_not_the_services(table: Table) -> None:
    table.add(Entry(101, 10.0, 100))

    assert processes.members(LEADER, SERVICE) == []


def test_processes_of_other_users_zombies_and_labctl_itself_are_left_out(table: Table) -> None:
    table.add(
        Entry(300, 60.0, 100, SERVICE, uid=UID + 1),
        Entry(301, 60.0, 100, SERVICE, state=psutil.STATUS_ZOMBIE),
        Entry(os.getpid(), 60.0, 100, SERVICE),
    )

    assert processes.members(LEADER, SERVICE) == []


def test_killing_sends_nothing_but_sigkill_and_only_to_the_service(table: Table) -> None:
    mine, others = service(), strangers()
    table.add(*mine, *others)

    processes.end(LEADER, SERVICE, grace=0)
    assert all(entry.got == [signal.SIGKILL] for entry in mine)
    assert all(entry.got == [] for entry in others)
    assert set(table.entries) == {entry.pid for entry in others}


def test_the_time_of_an_end_begins_after_the_look_for_its_processes(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add(*service())
    look, began = processes.members, table.clock.time()

    def slow(*args: Any) -> list[psutil.Process]:
        table.clock.sleep(2.5)
        return look(*args)

    monkeypatch.setattr(processes, "members", slow)
    struck = processes.end(LEADER, SERVICE, grace=0)
    assert (struck.first - began, struck.last - began) == (2.5, 2.5)


def test_stopping_asks_the_leader_and_kills_what_is_left(table: Table) -> None:
    mine = service()
    table.add(*mine)

    processes.end(LEADER, SERVICE, grace=5)
    assert mine[0].got == [signal.SIGTERM]
    assert all(entry.got == [signal.SIGKILL] for entry in mine[1:])


def test_a_leader_that_does_not_obey_is_killed(table: Table) -> None:
    leader = Entry(100, 50.0, 100, SERVICE, stubborn=True)
    table.add(leader)

    processes.end(LEADER, SERVICE, grace=5)
    assert leader.got == [signal.SIGTERM, signal.SIGKILL]


def test_every_paused_process_of_a_service_that_is_stopped_is_thawed(table: Table) -> None:
    mine = service()
    table.add(*mine)
    for entry in mine:
        entry.state = psutil.STATUS_STOPPED

    processes.end(LEADER, SERVICE, grace=5)

    assert mine[0].got == [signal.SIGTERM, signal.SIGCONT]
    assert all(entry.got == [signal.SIGCONT, signal.SIGKILL] for entry in mine[1:])


def test_a_paused_leader_alone_needs_no_grace(table: Table) -> None:
    leader = Entry(100, 50.0, 100, SERVICE, state=psutil.STATUS_STOPPED)
    table.add(leader)
    before = table.clock.monotonic()

    processes.end(LEADER, SERVICE, grace=10)
    assert leader.got == [signal.SIGTERM, signal.SIGCONT]
    assert table.clock.monotonic() == before


def test_without_a_leader_all_are_asked(table: Table) -> None:
    mine = service()[1:3]
    table.add(*mine)

    processes.end(LEADER, SERVICE, grace=5)
    assert all(entry.got == [signal.SIGTERM] for entry in mine)


def test_a_child_that_was_being_made_is_killed_too(table: Table) -> None:
    table.add(Entry(100, 50.0, 100, SERVICE))
    table.newborn = [Entry(106, 70.0, 100, SERVICE)]

    processes.end(LEADER, SERVICE, grace=0)
    assert not table.entries


def test_ending_what_is_gone_does_nothing(table: Table) -> None:
    table.add(*strangers())

    processes.end(LEADER, SERVICE, grace=5)
    assert all(entry.got == [] for entry in table.entries.values())


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], False),
        ([psutil.STATUS_STOPPED], True),
        ([psutil.STATUS_STOPPED, psutil.STATUS_SLEEPING], False),
    ],
)
def test_frozen_means_that_every_process_is_stopped(states: list[str], expected: bool) -> None:
    entries: list[Any] = [Entry(i, 0.0, i, state=state) for i, state in enumerate(states)]

    assert processes.frozen(entries) is expected


def test_a_spawned_process_has_a_session_of_its_own_and_its_output_goes_to_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: Table
) -> None:
    table.add(Entry(77, 5.0, 77))
    seen: dict[str, Any] = {}

    class Popen:
        pid = 77
        returncode = None

        def __init__(self, argv: list[str], **options: Any) -> None:
            seen.update(options, argv=argv)
            options["stdout"].write(b"hello\n")

    monkeypatch.setattr(subprocess, "Popen", Popen)
    log = tmp_path / "logs" / "a.log"

    for _ in range(2):
        spawned = processes.spawn(("ray", "start"), {"A": "1"}, log, tmp_path)
        assert spawned == Identity(77, 5.0)
        assert spawned.spawned_at == 1_700_000_000.0
    assert seen["argv"] == ["ray", "start"]
    assert (seen["start_new_session"], seen["env"], seen["cwd"]) == (True, {"A": "1"}, tmp_path)
    assert (seen["stdin"], seen["stderr"]) == (subprocess.DEVNULL, subprocess.STDOUT)
    assert log.read_text() == "hello\nhello\n"


STAT = "{pid} (a) b) (c) S 1 " + " ".join(["0"] * 17) + " 6281 0 0 0\n"


def proc(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """A /proc of the test's own in which 77 started 62.81 s after the boot."""
    (folder / "77").mkdir(parents=True)
    (folder / "77" / "stat").write_text(STAT.format(pid=77))
    monkeypatch.setattr(processes, "PROC", folder)
    monkeypatch.setattr(os, "sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    return folder


def test_a_process_stays_known_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    proc(monkeypatch, tmp_path)
    clock = [1_700_000_000.0]

    class Process:
        def __init__(self, pid: int) -> None:
            self.pid = pid

        def create_time(self) -> float:
            return clock[0] + 62.81

        def status(self) -> str:
            return psutil.STATUS_SLEEPING

    monkeypatch.setattr(psutil, "Process", Process)
    identity = Identity(77, processes.start_time(77))
    clock[0] += 3600

    assert processes.start_time(77) == 62.81
    assert processes.find(identity) is not None


@pytest.mark.parametrize("content", [None, "", "77 (a) S 1"])
def test_without_a_kernel_that_tells_the_start_is_what_psutil_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(psutil, "Process", lambda pid: SimpleNamespace(create_time=lambda: 1234.5))
    if content is not None:
        (tmp_path / "77").mkdir()
        (tmp_path / "77" / "stat").write_text(content)

    assert processes.start_time(77) == 1234.5


def test_a_boot_has_a_name_or_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.boot_id() == ""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("8e92-7f\n")
    assert processes.boot_id() == "8e92-7f"


@pytest.mark.parametrize(
    ("answer", "code"), [((77, 3 << 8), 3), ((77, 9), -9), ((77, 0), 0), ((0, 0), None), (None, None)]
)
def test_how_a_process_ended_is_known_to_its_parent(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[int, int] | None, code: int | None
) -> None:
    def waitpid(pid: int, options: int) -> tuple[int, int]:
        assert (pid, options) == (77, os.WNOHANG)
        if answer is None:
            raise ChildProcessError
        return answer

    monkeypatch.setattr(os, "waitpid", waitpid)

    assert processes.exit_code(Identity(77, 5.0)) == code


class Working:
    """A process that uses the seconds of CPU that it is given, and then ends."""

    def __init__(self, pid: int, *seconds: float, memory: int = 1000) -> None:
        self.pid, self.seconds, self.memory = pid, list(seconds), memory

    def cpu_times(self) -> Any:
        if not self.seconds:
            raise psutil.NoSuchProcess(self.pid)
        return SimpleNamespace(user=self.seconds.pop(0), system=0.25)

    def memory_info(self) -> Any:
        if not self.seconds:
            raise psutil.NoSuchProcess(self.pid)
        return SimpleNamespace(rss=self.memory)

    def memory_full_info(self) -> Any:
        return self.memory_info()  # a system that knows no PSS


class Sharing(Working):
    """A process that has three quarters of its pages in common with others."""

    def memory_full_info(self) -> Any:
        return SimpleNamespace(rss=self.memory, pss=self.memory // 4)


class Hidden(Working):
    """A process that tells only what everybody may know."""

    def memory_full_info(self) -> Any:
        raise psutil.AccessDenied(self.pid)


def test_memory_is_a_process_share_of_it_where_the_system_can_say_that() -> None:
    of: list[Any] = [Sharing(1, 0.0), Hidden(2, 0.0), Working(3, 0.0), Working(4)]
    assert [processes.memory(process) for process in of] == [250, 1000, 1000, 0]


def test_the_use_of_a_service_is_that_of_all_its_processes() -> None:
    class Busy(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(2 * seconds)  # on a busy machine more time passes than was asked for

    half, whole = processes.SAMPLE_SECONDS, 2 * processes.SAMPLE_SECONDS
    groups: Any = {
        "a": [Working(1, 5.0, 5.0 + whole, 0.0), Working(2, 1.0, 1.0 + half, 0.0), Working(3, 4.0)],
        "b": [],
    }
    assert processes.usage(groups, Busy()) == {"a": (150.0, 2000), "b": (0.0, 0)}
