"""Numbers of threads of numerical libraries: each reads its own as it is loaded, so a fork has to set them.

The server loads them with one thread each, or they would start a pool and it could not be forked.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import Any

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

NO_BACKGROUND = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""pyarrow's allocator would start a thread of its own."""


def restrain(environ: MutableMapping[str, str]) -> None:
    """Let libraries that are loaded with this environment start no threads."""
    environ.update(dict.fromkeys(ONE_THREAD, "1"))
    environ.update(NO_BACKGROUND)


def count() -> int:
    """Number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


def wait_for_one() -> None:
    """Wait until the kernel has done with a thread that has been joined; 2 seconds at most."""
    deadline = time.monotonic() + 2.0
    while count() != 1 and time.monotonic() < deadline:
        time.sleep(0.005)


def number(environ: Mapping[str, str], *names: str) -> int:
    """Value of the first of these variables that is a number; the machine's cores without one."""
    for name in names:
        value = environ.get(name, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pools:
    """The pools of the libraries that this process has loaded."""

    def __init__(self) -> None:
        self._controllers: list[Any] = []

    def look(self) -> None:
        """Find them, once in a server; every fork knows them then."""
        if "threadpoolctl" not in sys.modules and "numpy" not in sys.modules:
            return
        try:
            from threadpoolctl import ThreadpoolController
        except ImportError:
            return
        self._controllers = list(ThreadpoolController().lib_controllers)

    def settle(self, environ: Mapping[str, str]) -> None:
        """Let each library use as many threads as it would have read from this environment."""
        for controller in self._controllers:
            blas = controller.user_api == "blas"
            wanted = number(environ, *(("OPENBLAS_NUM_THREADS",) if blas else ()), "OMP_NUM_THREADS")
            if controller.get_num_threads() != wanted:
                controller.set_num_threads(wanted)
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "set_num_threads"):
            torch.set_num_threads(number(environ, "OMP_NUM_THREADS"))
