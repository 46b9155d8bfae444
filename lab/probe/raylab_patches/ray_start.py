"""`ray start`, kept on the loopback address, with a folder for runtime environments of its own.

On Linux Ray replaces 127.0.0.1 by the host's outward address and then listens on every interface
(ray 2.60, `ray._private.services.resolve_ip_for_localhost`); a lab of plain processes must not be reachable
from the network. The variable `LOOPBACK` keeps Ray's own processes, drivers and workers on 127.0.0.1, but
makes `ray start --address` refuse a second node, as on macOS. This module is that command without the
refusal.

Nodes of one host share a session folder. When a job's first task comes to a node, Ray unpacks the job's
working directory there anew and deletes what was in its place (`overwrite=True` in its runtime_env plugin):
the folder in which the job's driver, and its workers on other nodes, run. So every node gets its own.

`ray start --head` refuses an address for which a process of the host was started: a raylet that has outlived
its head is one. A lab's ports are its own, and who listens on one is found out before, so it does not look.

All of this is the patch `ray_start`, which holds with stock Ray too: it is about several nodes on one host,
and about who can reach them, not about how Ray trains or recovers. With the patch off a second node of one
host is refused.

First of all it looks whether the patches find in Ray what they expect (raylab_expectations). Those that do
not are off in all processes of the node. Where that would leave something open to others the node does not
start, nor when a command by which Ray starts a process has another address than a loopback one.

Beside it starts what extensions bring. Their module `start` has `begin(arguments, loopback=)`, called before
Ray is imported. It may return a function that is given Ray's modules `node` and `services`, and the
arguments, which it returns.

    python -m raylab_patches.ray_start start --address=127.0.0.1:6379 --node-ip-address=127.0.0.1 ...
    python -m raylab_patches.ray_start ray start --head ...
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, NoReturn

from raylab_extended import extended

from raylab_switches import PATCHES, UNFIT, active, wanted

REFUSED = 24
"""Exit code of a node that does not start because a patch does not fit; labctl's own for it."""

ADDRESS = re.compile(r"--(?:node[-_]ip[-_]address|(?:[a-z_-]+[-_])?host)=([^\s\"']+)")
"""Option of a process of Ray, or of one that a raylet is told to start: the address that it listens on."""

LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Environment of every process of a loopback cluster, the clients' included."""


def on_loopback() -> bool:
    """Tell whether this node belongs to a cluster of plain processes."""
    return all(os.environ.get(name) == value for name, value in LOOPBACK.items())


def main() -> None:
    look_at_ray(os.environ)

    begun = [module.begin(sys.argv, loopback=on_loopback()) for module in extended("start")]

    from ray._private import node, ray_constants, services
    from ray.scripts import scripts

    from raylab_patches import redis_password

    if active("ray_start"):
        ray_constants.ENABLE_RAY_CLUSTER = True
        ray_constants.DEFAULT_RUNTIME_ENV_DIR_NAME = f"runtime_resources_{os.getpid()}"
        services.resolve_ip_for_localhost = lambda host: host
        services.find_bootstrap_address = lambda temp_dir: None
        only_on_loopback(services)
        own_sockets(node.Node)
    for install in filter(None, begun):
        sys.argv = install(node, services, sys.argv)
    if sys.argv[1:2] == ["ray"]:
        del sys.argv[1]
    sys.argv = redis_password.prepare(sys.argv, services)
    scripts.main()


def look_at_ray(
    environ: MutableMapping[str, str], unfit: Callable[[], Mapping[str, str]] | None = None
) -> None:
    """Turn off the patches that do not fit this Ray, in this process and in those that it starts.

    Does not return when others could reach something of this node then.
    """
    import raylab_expectations

    if UNFIT not in environ:
        problems = (unfit or raylab_expectations.unfit)()
        environ[UNFIT] = ",".join(problems)
        for name, problem in problems.items():
            if wanted(name, environ):
                say_unfit(name, problem)
    for patch in PATCHES:
        if patch.exposes and wanted(patch.name, environ) and not active(patch.name, environ):
            refuse(patch.name, raylab_expectations.unmet(patch.name) or "it was turned off for this node")


def say_unfit(name: str, problem: str) -> None:
    """One line of the node's log, by which labctl knows it."""
    from importlib.metadata import version

    said = f"raylab: the patch {name} does not fit Ray {version('ray')}: {problem}"
    print(said, file=sys.stderr, flush=True)


def refuse(name: str, problem: str) -> NoReturn:
    """End this node, of which others could reach something without this patch."""
    (patch,) = (row for row in PATCHES if row.name == name)
    say_unfit(name, f"{problem}; without it {patch.exposes}: this node does not start")
    raise SystemExit(REFUSED)


def only_on_loopback(services: Any) -> None:
    """Let `services`, Ray's module of that name, start no process with another address than a loopback's."""
    start: Callable[..., Any] = services.start_ray_process

    def start_ray_process(command: Sequence[str], *args: Any, **options: Any) -> Any:
        others = set(ADDRESS.findall(" ".join(command))).difference(LOOPBACK_ADDRESSES)
        if others:
            refuse("ray_start", f"a process of Ray would listen on {min(others)}")
        return start(command, *args, **options)

    services.start_ray_process = start_ray_process


def own_sockets(node: Any) -> None:
    """Let Ray's class Node name a node's sockets after its process.

    Ray takes the first name that no file has yet: nodes that start at the same instant take the same.
    """
    prepare: Callable[..., str] = node._prepare_socket_file

    def _prepare_socket_file(self: Any, socket_path: str | None, default_prefix: str) -> str:
        return prepare(self, socket_path, f"{default_prefix}.{os.getpid()}")

    node._prepare_socket_file = _prepare_socket_file


if __name__ == "__main__":
    main()
