"""Modules that a fork server imports ahead: fixed lists, and what ranks were seen to import."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

NODE = (
    "ray",
    "ray._private.worker",
    "ray._private.node",
    "ray._private.runtime_env.context",
    "ray._private.runtime_env.setup_hook",
    "ray._private.async_compat",
    "ray._private.arrow_serialization",
    "pydantic.v1",
    "ray.scripts.scripts",
    "ray.actor",
    "ray.runtime_env",
    "ray.experimental.internal_kv",
    "ray._private.log_monitor",
    "ray.autoscaler._private.monitor",
    "ray.autoscaler.v2.monitor",
    "ray.util.client.server.proxier",
    "ray.util.client.server.server",
    "ray._private.runtime_env.agent.runtime_env_agent",
    "ray.dashboard.agent",
    "ray.dashboard.dashboard",
    "ray.dashboard.head",
    "ray.dashboard.http_server_head",
    "ray.dashboard.subprocesses.handle",
    "ray.dashboard.subprocesses.module",
    "uvloop",
)
"""Modules that the processes of a node import, whatever runs on it."""

NOT_YET = "ray.serve.scripts"
"""Module of Ray Serve, with 700 others, for one command of COMMANDS: `ray serve`. No node needs it, and `up`
would wait for it half a second."""

COMMANDS = "ray.scripts.scripts"
"""Module with the commands of Ray, of which `ray start` is one."""

NODE_PACKAGES = ("ray.dashboard.modules",)
"""Packages of which every module is imported: the dashboard looks for its parts so."""

TRAIN = (
    "ray.train",
    "ray.train.torch",
    "ray.train.lightning",
    "ray.train.v2.api.data_parallel_trainer",
    "ray.train.v2._internal.execution.controller",
    "ray.train.v2._internal.execution.worker_group",
    "ray.train.v2._internal.execution.checkpoint.sync_actor",
    "ray.train.v2._internal.execution.local_mode.torch",
    "ray.dashboard.modules.job.job_supervisor",
    "torch",
    "torch.distributed",
    "torch.utils.data",
    "torch.distributed.algorithms.ddp_comm_hooks",
    "torch.nn.functional",
    "torch.utils.serialization",
    "pytorch_lightning",
    "lightning",
    "numpy",
    "pandas",
    "pyarrow",
    "pyarrow.fs",
    "pyarrow.parquet",
    "sklearn.datasets",
    "sklearn.metrics",
    "sklearn.model_selection",
    "PIL.Image",
    "ray.tune",
    "ray.data",
    "ray.data._internal.issue_detection",
    "ray.train.v2.torch.torchft_config",
    "torchft",
    "ray.serve",
)
"""Modules that trainings import as a rule."""

MOST_LEARNT = 20_000
"""Limit of names that are kept; a rank has about 5,000."""


def imported(modules: Mapping[str, ModuleType | None]) -> tuple[str, ...]:
    """The names of these modules that another process can import, in the order in which they were.

    Only what is installed: what a job brings along may do something when it is imported.
    """
    from sysconfig import get_path

    places = {os.path.join(os.path.realpath(get_path(name)), "") for name in ("stdlib", "purelib", "platlib")}
    names = []
    for name, module in list(modules.items()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        if spec is None or spec.name != name or not isinstance(origin, str):
            continue
        if os.path.realpath(origin).startswith(tuple(places)):
            names.append(name)
    return tuple(names)


def learnt(path: str) -> tuple[str, ...]:
    """The names in this file; none where there is no such file, or it holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)["modules"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return tuple(str(name) for name in names[:MOST_LEARNT]) if isinstance(names, list) else ()


def remember(path: str, names: Iterable[str]) -> bool:
    """Add these names to the file, in one step; whether there was anything to add. Raises OSError."""
    known = learnt(path)
    both = tuple(dict.fromkeys((*known, *names)))[:MOST_LEARNT]
    if both == known:
        return False
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump({"modules": both}, file)
    os.replace(draft, path)
    return True


def members(package: str) -> tuple[str, ...]:
    """The names of all modules of a package; none where it is not installed."""
    from importlib.util import find_spec
    from pkgutil import walk_packages

    try:
        spec = find_spec(package)
    except ImportError:
        return ()
    places = spec.submodule_search_locations if spec else None
    found = walk_packages(places, f"{package}.", onerror=lambda name: None) if places else ()
    return tuple(info.name for info in found if ".tests" not in info.name)


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Let whoever imports this module find that it is not there."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def forget(name: str) -> None:
    """Let this module of a package be imported anew by whoever wants it."""
    if sys.modules.pop(name, None) is not None:
        package, _, own = name.rpartition(".")
        vars(sys.modules[package]).pop(own, None)


def drop_orphans(new: Iterable[str]) -> None:
    """Remove those of these modules whose package is not there: an import of it that failed has left them.

    Whoever imports that package anew would get them from the failed import, with a part of what they need.
    """
    for name in list(new):
        parts = name.split(".")
        if any(".".join(parts[:end]) not in sys.modules for end in range(1, len(parts))):
            sys.modules.pop(name, None)


def import_all(
    names: Iterable[str],
    spoilt: Callable[[], str] = lambda: "",
    load: Callable[[str], object] = importlib.import_module,
) -> str:
    """Import these modules in this order, those that cannot be excepted.

    Ends with the first after which `spoilt` names a reason why this process cannot be forked any more, and
    returns that module's name; the empty string when none does.
    """
    for name in names:
        if name in sys.modules:
            continue
        before = set(sys.modules)
        try:
            load(name)
        except (Exception, SystemExit):  # who needs it will import it, or fail, as without us
            drop_orphans(sys.modules.keys() - before)
            continue
        if spoilt():
            return name
    return ""
