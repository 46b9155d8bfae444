"""Processes of the local runtime: started in sessions of their own, recognised for certain, ended whole.

A process id alone names nothing: ids are used again. A process is known here by its id *and* its start time,
on a clock that nobody sets: when the time of day is corrected, a running lab stays known.
The processes of a service are found by three marks, because Ray moves its own about: the session of the
leader, descent from it, and an environment variable that every service is started with. What a fork server
has made has none of them; a small process stands for it that has, and bears its id in its name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from lab.host import command
from lab.host.clock import Clock
from lab.host.descent import fork_of, of_table, process_table
from lab.topology import Struck

MARK = "RAYLAB_SERVICE"
"""Environment variable of every process of a lab: `<folder of the lab>:<service>`."""

FORK_SERVER_OF = "RAYLAB_FORK_SERVER_OF"
"""Environment variable of a lab's fork server and, as /proc shows it, of its forks: the lab's folder."""

START_TOLERANCE_SECONDS = 0.05
"""Start times are kept in clock ticks of 10 ms."""

KILL_ROUNDS = 10
KILL_SECONDS = 5.0
"""Deadline for a killed process to be gone; one in an uninterruptible system call can take that long."""

WAIT_POLL_SECONDS = 0.02

PROC = Path("/proc")


SAMPLE_SECONDS = 0.3
"""Duration of one measurement of CPU usage."""


@dataclass(frozen=True)
class Identity:
    """One process for certain: its id and its `start_time`."""

    pid: int
    started_at: float
    spawned_at: float = field(default=0.0, compare=False)
    """Seconds since the epoch by the clock then, to compare with times that Ray gives."""


def start_time(pid: int) -> float:
    """Start time of a process: seconds since the boot on Linux, elsewhere since the epoch.

    psutil's own time is computed from the time of day, and moves when that is set. Raises psutil.Error.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22; the first after the name is field 3
    except (OSError, IndexError, ValueError):
        return psutil.Process(pid).create_time()


def boot_id() -> str:
    """The name of this boot of the machine, or nothing where the system has none for it."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def spawn(argv: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path) -> Identity:
    """Start a process in a session of its own, its output appended to `log`. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    now = time.time()
    with log.open("ab") as output:
        process = command.start(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            start_new_session=True,
        )
    # The handle is not kept: labctl may end at any time. psutil reaps it if it dies while we are its parent.
    process.returncode = 0
    return Identity(process.pid, start_time(process.pid), now)


def find(identity: Identity) -> psutil.Process | None:
    """The living process with this identity, or None (ended, a zombie, or somebody else's id by now)."""
    try:
        process = psutil.Process(identity.pid)
        if abs(start_time(identity.pid) - identity.started_at) > START_TOLERANCE_SECONDS:
            return None
        if process.status() == psutil.STATUS_ZOMBIE:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(identity.pid, os.WNOHANG)
            return None
        return process
    except psutil.Error:
        return None


def exit_code(identity: Identity) -> int | None:
    """Exit code of a process that this one started, negative for a signal.

    None while it runs, and when another process is its parent or it was asked before.
    """
    try:
        pid, status = os.waitpid(identity.pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if pid else None


def members(leader: Identity | None, mark: str) -> list[psutil.Process]:
    """Every living process of a service: the leader's session and descendants, and whoever carries `mark`.

    A descendant with another service's mark is that one's, and so is what descends from it: a node that was
    started from a notebook belongs to itself.
    """
    living, children = _living()
    session = _session_since(leader) if leader else None
    pids = [pid for pid, process in living.items() if _belongs(process, session, mark)]
    for pid in pids:  # grows while it is walked: descendants of descendants
        descended = [child for child in children.get(pid, ()) if _mark(living[child]) in ("", mark)]
        pids += [
            relative for relative in (*descended, *_fork_of(living[pid], living)) if relative not in pids
        ]
    return [living[pid] for pid in pids]


def by_mark() -> dict[str, list[psutil.Process]]:
    """Mark -> every living process that carries it, and what descends from one and carries none."""
    living, children = _living()
    marks = {pid: mark for pid, process in living.items() if (mark := _mark(process))}
    for pid in (pids := list(marks)):  # grows while it is walked, as above
        new = [child for child in children.get(pid, ()) if child not in marks]
        marks.update(dict.fromkeys(new, marks[pid]))
        pids += new
    groups: dict[str, list[psutil.Process]] = {}
    for pid, mark in marks.items():
        groups.setdefault(mark, []).append(living[pid])
    return groups


def _living() -> tuple[dict[int, psutil.Process], dict[int, list[int]]]:
    """This user's processes, but not this one, and the children of each."""
    own, me = os.getuid(), os.getpid()
    living: dict[int, psutil.Process] = {}
    children: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid", "status", "uids", "name"]):
        info = process.info
        uids = info["uids"]
        if uids is None or uids.real != own or info["status"] == psutil.STATUS_ZOMBIE or process.pid == me:
            continue
        living[process.pid] = process
        children.setdefault(info["ppid"], []).append(process.pid)
    return living, children


def _fork_of(process: psutil.Process, living: Mapping[int, psutil.Process]) -> tuple[int, ...]:
    """The process that this one stands for, if it stands for a fork that lives."""
    pid = fork_of(str(process.info["name"] or ""))
    if pid not in living:
        return ()
    try:  # whoever has that id now and is older is somebody else
        younger = start_time(pid) >= start_time(process.pid) - START_TOLERANCE_SECONDS
    except psutil.Error:
        return ()
    return (pid,) if younger else ()


def _session_since(leader: Identity) -> Identity | None:
    """The session of this leader and its beginning; None when its id is somebody else's by now.

    While anybody is left in the session, the kernel gives the leader's id to no new process.
    """
    try:
        if abs(start_time(leader.pid) - leader.started_at) > START_TOLERANCE_SECONDS:
            return None
    except psutil.NoSuchProcess:
        pass
    except psutil.Error:
        return None
    return Identity(leader.pid, leader.started_at - START_TOLERANCE_SECONDS)


def _belongs(process: psutil.Process, session: Identity | None, mark: str) -> bool:
    """True when a process is of the leader's session, or carries the mark."""
    with contextlib.suppress(psutil.Error, OSError):
        if session is not None and os.getsid(process.pid) == session.pid:
            return start_time(process.pid) >= session.started_at - START_TOLERANCE_SECONDS
        return _mark(process) == mark
    return False


def _mark(process: psutil.Process, variable: str = MARK) -> str:
    """The mark that a process carries; empty when it carries none, or hides its environment."""
    with contextlib.suppress(psutil.Error, OSError):
        return str(process.environ().get(variable, ""))
    return ""


def usage(groups: Mapping[str, Sequence[psutil.Process]], clock: Clock) -> dict[str, tuple[float, int]]:
    """Group -> (CPU in percent of one core, memory in bytes) of its processes together, over a moment.

    Memory is their proportional share (PSS) where the system can say it: a page that forked processes have in
    common counts once, divided among them. Elsewhere it is the resident memory, which counts it in each.
    A process that ends or begins meanwhile counts with what is known of it.
    """
    begin = clock()
    before = {name: _cpu_seconds(group) for name, group in groups.items()}
    clock.sleep(SAMPLE_SECONDS)
    passed = max(clock() - begin, SAMPLE_SECONDS)
    usages = {}
    for name, group in groups.items():
        after = _cpu_seconds(group)
        spent = sum(after[pid] - before[name].get(pid, after[pid]) for pid in after)
        usages[name] = (round(100 * spent / passed, 1), sum(map(memory, group)))
    return usages


def _cpu_seconds(group: Iterable[psutil.Process]) -> dict[int, float]:
    seconds = {}
    for process in group:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds[process.pid] = times.user + times.system
    return seconds


def memory(process: psutil.Process) -> int:
    """Bytes of memory of one process, its share of what it has in common with others; 0 when it has ended."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.Error, AttributeError):  # a process of another user, or a system that knows no PSS
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> Struck:
    """Signal each process that is still the one it was (psutil compares start times); returns when."""
    first = time.time()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
    return Struck(first, time.time())


def forks_of(folder: Path) -> list[psutil.Process]:
    """The fork server of the lab with this folder, and its forks."""
    return [
        process
        for process in psutil.process_iter(["status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and _mark(process, FORK_SERVER_OF) == str(folder)
    ]


def orphans_of(folder: Path) -> list[psutil.Process]:
    """Forks of a server that is gone, of the lab with this folder: those for which no process stands.

    They belong to no service any more, and may hold the ports of the next ones.
    """
    table = process_table()
    stood_for = {fork_of(name) for _, name in table.values()} & table.keys()
    kept = set[int]().union(*(of_table(pid, table) for pid in stood_for))
    return [process for process in forks_of(folder) if process.pid not in kept]


def services_of(folder: Path) -> set[str]:
    """The services of the lab with this folder that have a living process, by their mark."""
    names = set()
    for process in psutil.process_iter():
        of, _, name = _mark(process).rpartition(":")
        if of == str(folder):
            names.add(name)
    return names


def service_of(pid: int, folder: Path) -> str:
    """The service of the lab with this folder that a process belongs to, by its mark; empty for any other.

    Of a fork it is the fork server, which has made it for a node.
    """
    try:
        environment = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return ""
    of, _, name = environment.get(MARK, "").rpartition(":")
    if of == str(folder):
        return name
    return "fork-server" if environment.get(FORK_SERVER_OF) == str(folder) else ""


def end(leader: Identity | None, mark: str, *, grace: float) -> Struck:
    """End a service: SIGTERM to its leader and `grace` seconds, then SIGKILL to whatever is left.

    A paused service is thawed after the SIGTERM: a frozen process obeys nothing else. With `grace` 0
    everything is killed at once.
    """
    living = members(leader, mark) if grace > 0 else []
    asked: list[Struck] = []
    if living:
        first = find(leader) if leader else None
        asked.append(send([first] if first else living, signal.SIGTERM))
        send([process for process in living if frozen([process])], signal.SIGCONT)
        _wait(living, grace)
    rounds = kill_all(lambda: members(leader, mark))
    if leader is not None:
        find(leader)  # reaps it when we are its parent
    return _together([*asked, *rounds])


def kill_all(look: Callable[[], Sequence[psutil.Process]]) -> list[Struck]:
    """Kill what `look` finds until it finds nothing more; returns each round."""
    rounds: list[Struck] = []
    for _ in range(KILL_ROUNDS):  # killing a parent can reveal a child that was just being made
        living = look()
        if not living:
            break
        rounds.append(send(living, signal.SIGKILL))
        _wait(living, KILL_SECONDS)
    return rounds


def _together(parts: Sequence[Struck]) -> Struck:
    return Struck(parts[0].first, parts[-1].last) if parts else Struck(now := time.time(), now)


def _wait(processes: Iterable[psutil.Process], timeout: float) -> None:
    """Wait until all have ended. A zombie has ended: who should reap it may take its time, or never do."""
    deadline = time.monotonic() + timeout
    living = list(processes)
    while living and time.monotonic() < deadline:
        living = [process for process in living if _lives(process)]
        if living:
            time.sleep(WAIT_POLL_SECONDS)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def frozen(processes: Iterable[psutil.Process]) -> bool:
    """True when there are processes and every one of them is stopped (SIGSTOP)."""
    states = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            states.append(process.status())
    return bool(states) and all(state == psutil.STATUS_STOPPED for state in states)
