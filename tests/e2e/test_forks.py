"""The fork server with real processes: what it forks is like what starts in the ordinary way."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from forkserver import refusal
from lab.runtime.local.services import LAUNCHER, import_roots
from tests.compiler import GCC, needs_gcc
from tests.e2e.fork_scripts import SCRIPTS
from tests.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux"),
]


@dataclass
class Server:
    """A fork server of its own, and what a node's environment is like."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    environment: dict[str, str]

    def serves(self, level: str) -> bool:
        return (self.folder / f"{level}.sock").exists()

    def pids(self) -> list[int]:
        """The server and its fork, the server of level `train`."""
        own = psutil.Process(self.process.pid)
        trains = [child for child in own.children() if child.cmdline() == own.cmdline()]
        return [own.pid, *(train.pid for train in trains[-1:])]

    def run(self, *argv: str, forked: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **options.pop("env", {})}
        if not forked:
            environment["RAYLAB_PATCHES_OFF"] = "forks"
        defaults: dict[str, Any] = {
            "capture_output": True,
            "text": True,
            "timeout": PATIENCE,
            "stdin": subprocess.DEVNULL,
        }
        if "input" in options:
            del defaults["stdin"]
        return subprocess.run(argv, check=False, env=environment, **{**defaults, **options})

    def refusals(self) -> str:
        return "\n".join(line for line in self.log.read_text().splitlines() if "not forked" in line)


@contextlib.contextmanager
def serving(folder: Path, python: str = sys.executable, **more: str) -> Iterator[Server]:
    sockets = Path(tempfile.mkdtemp(prefix="raylab-forks-", dir="/tmp"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PYTHONPATH": import_roots(),
        "RAYLAB_FORK_FOLDER": str(sockets),
        "RAYLAB_FIRST": "raylab_forks",
        **more,
    }
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, "-m", "raylab_forks", str(sockets)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(process, sockets, log, environment)
    try:
        eventually(lambda: server.serves("node") and server.serves("train"), PATIENCE, "the servers listen")
        yield server
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            with contextlib.suppress(psutil.Error):
                child.kill()
        process.kill()
        process.wait()
        shutil.rmtree(sockets, ignore_errors=True)


@contextlib.contextmanager
def without_training(server: Server) -> Iterator[None]:
    """As before the level `train` is ready."""
    path, aside = server.folder / "train.sock", server.folder / "aside"
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("forks")) as server:
        yield server


def forked(result: subprocess.CompletedProcess[str]) -> bool:
    """Whether a script that prints `FORKED` where torch was there before it asked says so."""
    return "forked=True" in result.stdout


def fork(server: Server, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """What such a script prints once it is forked: a server that a busy machine keeps from answering within
    a second is passed by.
    """

    def asked() -> subprocess.CompletedProcess[str]:
        done = server.run(*argv, **options)
        assert forked(done), done
        return done

    return eventually(asked, PATIENCE, "it is forked")


SAYS = "import sys; print('forked=%s' % ('torch' in sys.modules))\n"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_the_same_whether_it_is_forked_or_not(server: Server, tmp_path: Path, name: str) -> None:
    same_both_ways(server, tmp_path, name)


@pytest.mark.parametrize(
    "name",
    [
        *("own module", "descriptors", "logging", "multiprocessing fork", "lightning's second name"),
        *("threads of torch", "a small training", "data loader", "ray's commands"),
    ],
)
def test_so_it_is_before_the_training_level_is_ready(server: Server, tmp_path: Path, name: str) -> None:
    with without_training(server):
        same_both_ways(server, tmp_path, name)


HELPER = """
WORD = 'mine'
class Last:
    def __del__(self): print('last', WORD)
"""


def same_both_ways(server: Server, tmp_path: Path, name: str) -> None:
    (tmp_path / "helper_of_mine.py").write_text(HELPER)
    source = SCRIPTS[name]
    (tmp_path / "a script.py").write_bytes(source if isinstance(source, bytes) else source.encode())
    before = len(server.refusals())

    def run(way: bool) -> tuple[int, str, str]:
        done = server.run(
            *(sys.executable, "a script.py", "--one", "two words"),
            forked=way,
            cwd=tmp_path,
            input="typed\r\nby hand\r\n",
            env={"GREETING": "hello", "TZ": "Asia/Kolkata", "CUDA_VISIBLE_DEVICES": "GPU-5d,3"},
        )
        return done.returncode, done.stdout, re.sub(r"/psm_\w+", "/psm", done.stderr)

    with ThreadPoolExecutor(2) as both:
        fork, ordinary = both.map(run, (True, False))
    assert len(server.refusals()) == before, server.refusals()
    assert fork == ordinary


def test_scripts_are_really_forked_and_a_switch_turns_it_off(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "says.py"
    script.write_text(SAYS)
    fork(server, sys.executable, str(script))
    assert not forked(server.run(sys.executable, str(script), forked=False))
    assert not forked(server.run(sys.executable, str(script), env={"RAYLAB_FORK_FOLDER": ""}))


@pytest.mark.parametrize(
    ("argv", "env", "why"),
    [
        (("-O",), {}, ""),
        (("-X", "dev"), {}, ""),
        ((), {"PYTHONHASHSEED": "1"}, "PYTHONHASHSEED"),
        ((), {"PYTHONDONTWRITEBYTECODE": "1"}, "flags"),
        ((), {"LD_PRELOAD": "/nowhere.so"}, "LD_PRELOAD"),
        ((), {"MALLOC_ARENA_MAX": "1"}, "MALLOC_ARENA_MAX"),
        ((), {"FSSPEC_FILE": "{}"}, "FSSPEC_FILE"),
        ((), {"SSL_CERT_FILE": "/no/where"}, "SSL_CERT_FILE"),
        ((), {"SKLEARN_ASSUME_FINITE": "1"}, "SKLEARN_ASSUME_FINITE"),
        ((), {"NPY_PROMOTION_STATE": "weak"}, "NPY_PROMOTION_STATE"),
        ((), {"TORCHINDUCTOR_FREEZING": "1"}, "TORCHINDUCTOR_FREEZING"),
        ((), {"TMPDIR": "/var/tmp"}, "TMPDIR"),
        ((), {"RANK": "1"}, "RANK"),
        ((), {"TQDM_DISABLE": "1"}, "TQDM_DISABLE"),
        ((), {"TORCH_LOGS": ""}, None),
        ((), {"RAY_DEDUP_LOGS": "0"}, "RAY_DEDUP_LOGS"),
        ((), {"EPOCHS": "5", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_what_a_process_reads_at_its_start_decides(
    server: Server, tmp_path: Path, argv: tuple[str, ...], env: dict[str, str], why: str | None
) -> None:
    script = tmp_path / "says.py"
    script.write_text(SAYS)
    before = server.refusals()
    run = fork if why is None else Server.run
    done = run(server, sys.executable, *argv, str(script), env=env)
    assert done.returncode == 0
    assert forked(done) == (why is None)
    if why:
        eventually(lambda: why in server.refusals()[len(before) :], PATIENCE, f"{why} is the reason")


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
typedef char *reader(const char *);
static char *noted(const char *kind, const char *name) {
    static int log = -2;
    reader *ask = (reader *)dlsym(RTLD_NEXT, kind);
    reader *plain = (reader *)dlsym(RTLD_NEXT, "getenv");
    if (strncmp(program_invocation_short_name, "python", 6)) return ask(name);
    if (log == -2) log = open(plain("ASKED_FOR"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dprintf(log, "%s\\n", name);
    return ask(name);
}
char *getenv(const char *name) { return noted("getenv", name); }
char *secure_getenv(const char *name) { return noted("secure_getenv", name); }
"""

OF_NO_MEANING = {"LOCALTIME", "__PYVENV_LAUNCHER__", "bar"}
"""Variables that somebody asks for, and that make no process another one."""


@needs_gcc
@pytest.mark.long
def test_what_libraries_read_in_c_as_they_are_loaded_is_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "shim.c").write_text(SHIM)
    shim, log = tmp_path / "shim.so", tmp_path / "asked.txt"
    subprocess.run([GCC, "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    with serving(tmp_path, LD_PRELOAD=str(shim), ASKED_FOR=str(log)):
        asked = set(log.read_text().split()) - refusal.READ_LATER - OF_NO_MEANING
    assert {"NPY_DISABLE_CPU_FEATURES", "OMP_DYNAMIC", "SSL_CERT_FILE"} <= asked
    assert sorted(name for name in asked if not name.startswith(refusal.READ_AT_START)) == []


def test_a_module_of_ones_own_is_not_hidden_by_one_that_was_imported_ahead(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "sklearn.py").write_text("WORD = 'mine'\n")
    (tmp_path / "uses.py").write_text("import sklearn; print(sklearn.WORD)\n")
    assert server.run(sys.executable, "uses.py", cwd=tmp_path).stdout == "mine\n"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "uses.py").write_text("import sklearn; print(sklearn.WORD)\n")
    done = server.run(
        *(sys.executable, str(tmp_path / "elsewhere" / "uses.py")),
        env={"PYTHONPATH": f"{import_roots()}{os.pathsep}{tmp_path}"},
    )
    assert done.stdout == "mine\n"


def test_another_interpreter_starts_in_the_ordinary_way(server: Server, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "other")], check=True)
    script = tmp_path / "says.py"
    script.write_text(SAYS)
    done = server.run(str(tmp_path / "other" / "bin" / "python"), str(script))
    assert done.returncode == 0
    assert not forked(done)


def launch(
    server: Server, *arguments: str, python: str = sys.executable, **options: Any
) -> subprocess.Popen[str]:
    """A command through the launcher, as a raylet starts one."""
    return subprocess.Popen(
        [python, "-I", "-S", str(LAUNCHER), str(server.folder), "train,node", python, *arguments],
        env=server.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


DESCRIBES = """
import os, resource, sys
limits = [resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in ('NOFILE', 'CORE', 'STACK')]
print(os.sched_getaffinity(0), os.nice(0), os.sched_getscheduler(0), os.umask(0), limits, sys.flags.utf8_mode,
      open('/proc/self/oom_score_adj').read().strip())
print('forked=%s' % ('torch' in sys.modules))
"""


def oom_score(score: int) -> None:
    Path("/proc/self/oom_score_adj").write_text(str(score))


def limit(number: int, soft: int) -> None:
    resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))


CALLERS: dict[str, tuple[Callable[[], object], bool]] = {
    "one processor": (lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}), True),
    "nice": (lambda: os.nice(3), True),
    "first to be killed": (lambda: oom_score(700), True),
    "umask": (lambda: os.umask(0o27), True),
    "few files": (lambda: limit(resource.RLIMIT_NOFILE, 100), True),
    "core files": (lambda: limit(resource.RLIMIT_CORE, 0), True),
    "small stack": (lambda: limit(resource.RLIMIT_STACK, 4 << 20), False),
    "little memory": (lambda: limit(resource.RLIMIT_AS, 60 << 30), False),
    "batch": (lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)), False),
}
"""What the process that asks does before, and whether a fork can take it on."""


@pytest.mark.parametrize("name", CALLERS)
def test_a_fork_has_what_its_caller_has_or_is_none(server: Server, tmp_path: Path, name: str) -> None:
    prepare, can = CALLERS[name]
    script = tmp_path / "describes_itself.py"
    script.write_text(DESCRIBES)
    run = fork if can else Server.run
    asked = run(server, sys.executable, str(script), preexec_fn=prepare)
    ordinary = server.run(sys.executable, str(script), preexec_fn=prepare, forked=False)
    assert forked(asked) == can
    assert asked.stdout.splitlines()[0] == ordinary.stdout.splitlines()[0]
    assert asked.stderr == ordinary.stderr == ""


LIVES = """
import os, subprocess, sys, time
p = subprocess.Popen(['sleep', '600'])
print(os.getpid(), p.pid, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def living(
    server: Server, tmp_path: Path, python: str = sys.executable
) -> tuple[subprocess.Popen[str], int, int]:
    """A launcher, its fork, and what that has started."""
    script = tmp_path / "lives.py"
    script.write_text(LIVES)

    def started() -> tuple[subprocess.Popen[str], int, int]:
        launcher = launch(server, str(script), python=python, start_new_session=True)
        assert launcher.stdout is not None
        pid, beside = map(int, launcher.stdout.readline().split())
        if pid == launcher.pid:  # a busy machine kept the server from answering within a second
            os.killpg(pid, signal.SIGKILL)
            launcher.wait()
        assert pid != launcher.pid
        return launcher, pid, beside

    launcher, pid, beside = eventually(started, PATIENCE, "it is forked")
    assert psutil.Process(pid).ppid() in server.pids()
    eventually(lambda: psutil.Process(launcher.pid).name() == f"fork:{pid}", PATIENCE, "it is named after it")
    return launcher, pid, beside


def test_a_launcher_that_is_killed_takes_its_fork_and_all_it_started_with_it(
    server: Server, tmp_path: Path
) -> None:
    launcher, pid, beside = living(server, tmp_path)
    launcher.kill()
    launcher.wait()
    eventually(lambda: not alive(pid) and not alive(beside), PATIENCE, "it has happened")


def test_a_launcher_ends_as_its_fork_does(server: Server, tmp_path: Path) -> None:
    launcher, pid, beside = living(server, tmp_path)
    os.kill(pid, signal.SIGKILL)
    assert launcher.wait(PATIENCE) == -signal.SIGKILL
    os.kill(beside, signal.SIGKILL)
    launcher, pid, beside = living(server, tmp_path)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(PATIENCE) == -signal.SIGTERM
    assert not alive(pid)
    os.kill(beside, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_ends_a_script_ends_the_rest_of_its_process_group(
    server: Server, tmp_path: Path, number: signal.Signals
) -> None:
    launcher, pid, beside = living(server, tmp_path)
    os.killpg(launcher.pid, number)
    assert launcher.wait(PATIENCE) == -number
    eventually(lambda: not alive(pid) and not alive(beside), PATIENCE, "it has happened")


def test_what_a_script_leaves_running_goes_on_when_it_has_come_to_its_end(
    server: Server, tmp_path: Path
) -> None:
    script = tmp_path / "leaves.py"
    script.write_text("import subprocess; print(subprocess.Popen(['sleep', '600']).pid)\n")
    left = []
    for _ in range(10):
        launcher = launch(server, str(script))
        assert launcher.stdout is not None
        left.append(int(launcher.stdout.readline()))
        assert launcher.wait(PATIENCE) == 0
    eventually(lambda: not psutil.Process(server.pids()[1]).children(), PATIENCE, "the server has reaped all")
    assert [alive(pid) for pid in left] == [True] * len(left)
    for pid in left:
        os.kill(pid, signal.SIGKILL)


def test_who_reads_what_a_script_prints_waits_for_no_launcher(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "closes.py"
    script.write_text("import os, time\nos.close(1); os.close(2); time.sleep(600)\n")
    launcher = launch(server, str(script))
    assert launcher.stdout is not None
    assert launcher.stdout.read() == ""
    assert launcher.poll() is None
    launcher.kill()
    launcher.wait()


def test_children_share_no_random_state(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "draws.py"
    script.write_text(
        "import json, multiprocessing, random, secrets, tempfile, uuid, numpy, torch\n"
        "from ray._raylet import JobID, PlacementGroupID, UniqueID\n"
        "print(json.dumps([random.random(), float(numpy.random.rand()), numpy.random.default_rng().random(),"
        " str(uuid.uuid4()), secrets.token_hex(4), tempfile.mktemp(), torch.rand(1).item(),"
        " multiprocessing.current_process().authkey.hex(), UniqueID.from_random().hex(),"
        " PlacementGroupID.of(JobID.from_int(1)).hex()]))\n"
    )
    drawn = [json.loads(server.run(sys.executable, str(script)).stdout) for _ in range(4)]
    for numbers in zip(*drawn, strict=True):
        assert len(set(numbers)) == len(drawn)


def anonymous(pid: int) -> float:
    """MB that a process has beside files, its share of what forks have in common with it.

    Pages of libraries are left out: whether they are its own depends on what else runs on the machine.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) / 1e3
    raise AssertionError("this kernel does not say how much memory of a process is anonymous")


@pytest.mark.long
def test_three_hundred_forks_leave_nothing(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text("print('x')\n")

    def look() -> tuple[int, int, float]:
        """Open descriptors, children, and memory in MB of both servers."""
        servers = [psutil.Process(pid) for pid in server.pids()]
        memory = sum(anonymous(p.pid) for p in servers)
        return sum(p.num_fds() for p in servers), sum(len(p.children()) for p in servers), memory

    for _ in range(30):
        server.run(sys.executable, str(script))
    eventually(lambda: look()[1] == 1, PATIENCE, "all forks are reaped")
    before = look()
    for _ in range(75):
        running = [launch(server, str(script)) for _ in range(4)]
        assert [process.wait(PATIENCE) for process in running] == [0] * 4
    eventually(lambda: look()[1] == 1, PATIENCE, "all forks are reaped")
    after = look()
    assert after[0] == before[0]
    assert after[2] - before[2] < 20


def test_a_job_goes_on_to_its_own_end_when_its_server_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import os, sys, time\nprint(os.getpid(), flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.05)\nsys.exit(5)\n"
    )
    with serving(tmp_path) as own:
        launcher = launch(own, str(script), str(tmp_path / "go"))
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        for own_pid in own.pids():
            os.kill(own_pid, signal.SIGKILL)
        own.process.wait()
        assert alive(pid)
        assert launcher.poll() is None
        (tmp_path / "go").touch()
        assert launcher.wait(PATIENCE) == 5
        # and what comes now starts in the ordinary way
        (tmp_path / "says.py").write_text(SAYS)
        done = own.run(sys.executable, str(tmp_path / "says.py"))
        assert done.returncode == 0
        assert not forked(done)


def test_a_fork_ends_with_its_launcher_although_its_server_is_gone(tmp_path: Path) -> None:
    with serving(tmp_path) as own:
        launcher, pid, beside = living(own, tmp_path)
        for server in own.pids():
            os.kill(server, signal.SIGKILL)
        own.process.wait()
        assert alive(pid)
        assert alive(beside)
        launcher.kill()
        launcher.wait()
        eventually(lambda: not alive(pid) and not alive(beside), PATIENCE, "it has happened")


def test_a_server_begins_anew_once_packages_were_added_and_looks_after_its_forks(tmp_path: Path) -> None:
    python, packages = environment_of_its_own(tmp_path / "venv")
    (tmp_path / "says.py").write_text(
        "import sys; print('forked=%s' % ('torch' in sys.modules))\nimport newcomer\n"
    )
    with serving(tmp_path, python=python) as own:
        launcher, pid, beside = living(own, tmp_path, python)
        ended, other, left = living(own, tmp_path, python)
        first, train = own.pids()
        (packages / "newcomer.py").touch()
        (packages / "newcomer-1.0.dist-info").mkdir()
        done = own.run(python, str(tmp_path / "says.py"))
        assert (done.returncode, forked(done)) == (0, False), "refused, not forked from what is outdated"
        eventually(
            lambda: forked(own.run(python, str(tmp_path / "says.py"))), PATIENCE, "all is imported anew"
        )
        assert own.pids()[0] == first, "the same process, for those who know it"
        assert train in [process.pid for process in psutil.Process(first).children()], "its forks live"
        os.kill(other, signal.SIGKILL)
        assert ended.wait(PATIENCE) == -signal.SIGKILL
        launcher.kill()
        launcher.wait()
        eventually(lambda: not alive(pid) and not alive(beside), PATIENCE, "its launcher was killed")
        eventually(lambda: not alive(train), PATIENCE, "the outdated server has ended with its last fork")
        os.kill(left, signal.SIGKILL)


def environment_of_its_own(folder: Path) -> tuple[str, Path]:
    """A Python that has all packages of this one, and the folder for its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "those_of_the_lab.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    )
    return str(folder / "bin" / "python"), packages


def test_a_frozen_server_costs_a_second(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "says.py"
    script.write_text(SAYS)
    pids = server.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        ordinary = launch(server, str(script))
        assert ordinary.wait(PATIENCE) == 0
        took = time.monotonic() - begin
        assert ordinary.stdout is not None
        assert ordinary.stdout.read() == "forked=False\n"
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert took >= 1.0
    fork(server, sys.executable, str(script))


def test_without_the_training_level_a_script_is_forked_from_that_of_nodes(
    server: Server, tmp_path: Path
) -> None:
    script = tmp_path / "says.py"
    script.write_text("import sys; print(*(name in sys.modules for name in ('ray', 'torch')))\n")

    def imported() -> str:
        return server.run(sys.executable, str(script)).stdout

    with without_training(server):
        eventually(lambda: imported() == "True False\n", PATIENCE, "it is forked from that of nodes")
    eventually(lambda: imported() == "True True\n", PATIENCE, "it is forked from that of trainings")


@pytest.mark.long
def test_a_training_server_that_is_killed_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path) as own:
        train = own.pids()[1]
        (own.folder / "train.sock").unlink()
        os.kill(train, signal.SIGKILL)
        eventually(lambda: own.serves("train"), PATIENCE, "the servers listen")
        assert own.pids()[1] != train
