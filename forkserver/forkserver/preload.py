"""Imports what a server needs before it serves, and tells whether the process can be forked then.

`prepare` imports what a node's processes import, `import_for_training` what trainings import besides, and
what ranks were seen to import (`modules`). `unfit` says afterwards why nothing may be forked from
this process; `spoilt` is the part of it that can change, and is asked before each fork.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from forkserver import identity, log, marks, modules, threads
from forkserver.application import DEFAULT, Application
from forkserver.reads import Reads

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence

AVOID = "avoid.json"
"""File in FOLDER: learnt modules after which the server could not be forked any more."""

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
"""Prefixes of the device files of GPUs."""


def prepare(read: Reads) -> tuple[marks.Marks | None, dict[str, str]]:
    """Import what a node's processes import; returns Ray's marks and the environment of before.

    To be called before Ray's library is loaded. Without the marks nothing can be forked that needs them.
    """
    environment = dict(os.environ)
    marks.set_in(os.environ)
    threads.restrain(os.environ)
    with read.noted(), identity.left_alone(), modules.without(modules.NOT_YET):
        modules.import_all((*modules.NODE, *modules.members(modules.NODE_PACKAGES[0])))
    os.environ.clear()
    os.environ.update(environment)
    try:
        return marks.Marks.find(), environment
    except marks.NotFoundError as error:
        log(f"nothing is forked: {error}")
        return None, environment


def import_for_training(folder: str, read: Reads, application: Application = DEFAULT) -> str:
    """Import what trainings use, at the lowest priority; returns the learnt module that has spoilt it.

    Priorities belong to threads on Linux, and nobody may raise one again: so a thread of its own is lowered,
    and ends. This one, of which forks are made, keeps the priority it has.
    """
    before = dict(os.environ)
    threads.restrain(os.environ)
    spoilers: list[str] = []
    left_out = set(modules.learnt(os.path.join(folder, AVOID)))
    learnt = [name for name in modules.learnt(application.learnt) if name not in left_out]

    def work() -> None:
        lower_priority()
        with read.noted(), identity.left_alone():
            modules.import_all((*modules.TRAIN, *application.modules))
            if not threads_too_many():
                spoilers.append(modules.import_all(learnt, threads_too_many))

    def threads_too_many() -> str:
        return "threads" if threads.count() > 2 else ""

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    threads.wait_for_one()
    os.environ.clear()
    os.environ.update(before)
    return spoilers[0] if spoilers else ""


def lower_priority() -> None:
    """Let this thread, and no other, run only where nobody else wants to."""
    own = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, own, 19)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(own, os.SCHED_IDLE, os.sched_param(0))


def avoid(folder: str, name: str) -> None:
    """Stop importing this learnt module ahead. Raises OSError."""
    modules.remember(os.path.join(folder, AVOID), [name])


def base_path(path: Sequence[str], environ: dict[str, str]) -> list[str]:
    """End of the module search path in every process: without PYTHONPATH and a script's folder."""
    extra = {entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    return [entry for entry in path if entry and entry not in extra and entry != os.getcwd()]


def unfit() -> str:
    """The reason for which this process, all imported, must not be forked; empty when it may be."""
    return spoilt() or ("forks would give things the same ids" if identity.shared() else "")


def spoilt() -> str:
    """The reason for which this process must not be forked now; empty when it may be."""
    if threads.count() != 1:
        return f"{threads.count()} threads"
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch, "cuda", None) is not None and torch.cuda.is_initialized():
        return "CUDA is initialised"
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith(DEVICES):
                return "a GPU is open"
    return ""


def top_level() -> set[str]:
    """The top-level names of all modules that were loaded from files, this package's own excepted."""
    found = set()
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if "." not in name and getattr(spec, "origin", None) not in (None, "built-in", "frozen"):
            found.add(name)
    return found - {"__main__"}
