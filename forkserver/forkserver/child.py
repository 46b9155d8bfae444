"""Turns a fork into the process that was asked for, as if it were started in the ordinary way.

In the order of `become`: signals, process group, descriptors, limits, priority and processors, working
directory, environment, what Ray's library has read, the streams, the numbers of threads, random state; then
what the application does in every process. `program` runs it then.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import itertools
import os
import signal
import socket
import sys
import threading
import warnings

from forkserver import command_line, commands, launcher, refusal
from forkserver.program import End

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from forkserver.marks import Marks
    from forkserver.threads import Pools

HIGH = 700
"""Descriptors are first moved above this number, so that none is in the way of another's own number."""

AGENTS = ("dashboard/agent.py", "runtime_env/agent/main.py")
"""Ray's agents of a node: each ends itself when its parent is not the raylet any more."""

DASHBOARD = ("dashboard/dashboard.py",)

HEALTH_BY_PIPE = "RAY_enable_pipe_based_agent_to_parent_health_check"
"""Variable that a raylet gives its agents: they notice its end by a pipe."""


def become(
    request: Mapping[str, Any],
    received: Sequence[int],
    sockets: tuple[socket.socket, socket.socket],
    marks: Marks | None,
    pools: Pools,
    base_path: Sequence[str],
    folder: str,
    prepare: Callable[[], None],
) -> tuple[list[str], End]:
    """Turn this fork into the process that is asked for; returns what `program.run` takes.

    `sockets` are the one to the launcher, and one whose other end is open in the launcher and in the server:
    this process group is killed when it is in neither. `folder` is the server's, `prepare` what else is to be
    done in every process.
    """
    _signals(request)
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    end = End(*_descriptors(request["descriptors"], received, sockets))
    end.with_both_gone()
    _limits(request)
    os.umask(request["umask"])
    context = refusal.runtime_context(request["argv"])
    os.chdir((refusal.folder_of(context) if context else "") or request["cwd"])
    _environment(request, context)
    if marks is not None:
        marks.write(os.environ)
    arguments = _arguments(request["argv"], context)
    sys.path[:] = refusal.search_path(request, os.environ, base_path, "")[1:]
    sys.executable, sys.orig_argv[:] = request["argv"][0], request["argv"]
    if request.get("path") is not None:  # a script; Ray gives its own processes titles, in the old place
        command_line.show(request["argv"], request["comm"])
    _streams(unbuffered="-u" in request["argv"][1:2] or bool(os.environ.get("PYTHONUNBUFFERED")))
    pools.settle(os.environ)
    if context is not None:
        _heed_ray(pools)
    _accelerators()
    _random()
    _as_at_the_start()
    if _is_rays(request["argv"], AGENTS):
        _be_child_of_raylet()
    if _is_rays(request["argv"], DASHBOARD):
        from multiprocessing import util

        commands.lead_forkserver(util, folder)
    with contextlib.suppress(Exception):
        prepare()
    return arguments, end


def _signals(request: Mapping[str, Any]) -> None:
    signal.set_wakeup_fd(-1)
    kept = launcher.numbers(("SIGKILL", "SIGSTOP", *launcher.IGNORED_BY_PYTHON))
    for number in signal.valid_signals() - kept:
        if signal.getsignal(number) is not None:  # else of a library, which has set it as it was imported
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])


def _descriptors(
    wanted: Sequence[int], received: Sequence[int], own: Sequence[socket.socket]
) -> list[socket.socket]:
    """Give the received descriptors their numbers; returns this process's own, moved out of their way."""
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH) for number in received]
    kept = [socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH)) for end in own]
    for end in own:
        end.close()
    for number in received:
        os.close(number)
    for number, descriptor in zip(wanted, moved, strict=True):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    for number in (0, 1, 2):
        if number not in wanted:
            with contextlib.suppress(OSError):
                os.close(number)
    return kept


def _limits(request: Mapping[str, Any]) -> None:
    """Take on limits, priority and processors. `refusal` has seen to it that a process may."""
    import resource

    for name, pair in request["limits"].items():
        number = getattr(resource, name, None)
        if number is not None and resource.getrlimit(number) != tuple(pair):
            resource.setrlimit(number, tuple(pair))
    if os.getpriority(os.PRIO_PROCESS, 0) != request["nice"]:
        os.setpriority(os.PRIO_PROCESS, 0, request["nice"])
    with contextlib.suppress(OSError):  # the control group of the server may have others
        os.sched_setaffinity(0, request["affinity"])
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(request["oom_score"]))


def _environment(request: Mapping[str, Any], context: Mapping[str, Any] | None) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])
    if context and context.get("env_vars"):
        from ray._private.utils import update_envs

        update_envs(context["env_vars"])


def _arguments(argv: Sequence[str], context: Mapping[str, Any] | None) -> list[str]:
    """The words after the interpreter and its flags; for a worker of Ray, after setup_worker.py too."""
    words = list(argv[1:])
    if context is not None:
        words = without_setup(words)
    while words and words[0] in refusal.FLAGS_OF_PYTHON:
        words.pop(0)
    return words


def without_setup(words: Sequence[str]) -> list[str]:
    """The arguments that setup_worker.py hands on: without itself and the two options that are its own."""
    import argparse

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--serialized-runtime-env-context")
    parser.add_argument("--language")
    return parser.parse_known_args(list(words[1:]))[1]


def _streams(*, unbuffered: bool) -> None:
    """Open Python's three streams anew: the server's have its buffers. Encoding and errors stay."""
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        old, new = getattr(sys, name), None
        with contextlib.suppress(OSError):
            os.fstat(number)
            new = _stream(name, number, old.encoding, old.errors, unbuffered=unbuffered)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _stream(name: str, number: int, encoding: str, errors: str, *, unbuffered: bool) -> io.TextIOWrapper:
    """As `create_stdio` in Python's pylifecycle.c does."""
    reads = name == "stdin"
    binary: Any = open(  # noqa: SIM115 - it is the stream's
        number, "rb" if reads else "wb", 0 if unbuffered and not reads else -1, closefd=False
    )
    raw = getattr(binary, "raw", binary)
    raw.name = f"<{name}>"
    stream = io.TextIOWrapper(
        binary,
        encoding=encoding,
        errors=errors,
        newline="\n",
        line_buffering=not unbuffered and (name == "stderr" or raw.isatty()),
        write_through=unbuffered,
    )
    stream.mode = "r" if reads else "w"  # type: ignore[misc]
    return stream


def _random() -> None:
    """Seed numpy and torch anew; Python itself does so with `random` after each fork."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()
    if torch is not None and hasattr(torch, "default_generator"):
        torch.default_generator.seed()
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
        process.ORIGINAL_DIR = os.getcwd()


def _as_at_the_start() -> None:
    """Forget what Python keeps while a process lives: time zone, threads, warnings shown, missing folders."""
    import time

    time.tzset()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
    threading._counter = itertools.count(1).__next__  # type: ignore[attr-defined]
    with warnings.catch_warnings():  # which outdates what modules remember of the warnings they have shown
        pass
    for path in [path for path, finder in sys.path_importer_cache.items() if finder is None]:
        del sys.path_importer_cache[path]


def _heed_ray(pools: Pools) -> None:
    """Adjust loaded libraries when Ray sets OMP_NUM_THREADS, as it does before a worker's task loads them."""
    from ray._private import utils

    decide = utils.set_omp_num_threads_if_unset

    def set_omp_num_threads_if_unset() -> bool:
        decided = bool(decide())
        if decided:
            pools.settle(os.environ)
        return decided

    utils.set_omp_num_threads_if_unset = set_omp_num_threads_if_unset


def _accelerators() -> None:
    """Let Ray note anew which GPUs this process may see: it has done so as the server imported it."""
    worker = sys.modules.get("ray._private.worker")
    if worker is not None:
        from ray._private import utils

        worker.global_worker.original_visible_accelerator_ids = utils.get_visible_accelerator_ids()


def _is_rays(argv: Sequence[str], programs: tuple[str, ...]) -> bool:
    """Tell whether this command runs one of these scripts of Ray."""
    return any("/ray/" in word and word.endswith(programs) for word in argv[1:3])


def _be_child_of_raylet() -> None:
    """Let psutil name the raylet as this process's parent: Ray's agents watch it, and find it by that."""
    import psutil
    from ray.dashboard import consts

    consts.PARENT_HEALTH_CHECK_BY_PIPE = os.environ.get(HEALTH_BY_PIPE, "0") in ("1", "true")
    raylet, me, ordinary = int(os.environ["RAY_RAYLET_PID"]), os.getpid(), psutil.Process.parent

    def parent(self: Any) -> Any:
        if self.pid != me:
            return ordinary(self)
        try:
            return psutil.Process(raylet)
        except psutil.NoSuchProcess:
            return None

    psutil.Process.parent = parent  # type: ignore[method-assign]
