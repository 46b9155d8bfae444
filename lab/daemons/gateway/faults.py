"""Kills of the node that a person's job trains on: by labctl itself, which writes the receipt, too."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lab.cluster.allocation import Holding, holdings, read
from lab.cluster.api import RayApi
from lab.errors import RefusedError
from lab.host import command
from lab.host.files import HOME_VARIABLE, ROOT
from lab.services import is_worker

LONGEST = "10m"
"""Longest wait for the first checkpoint, and again for training to go on."""

INHERITED = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR")


class Breaker:
    """Injects one fault at a time."""

    def __init__(
        self, held: Callable[[], tuple[Holding, ...]], start: Callable[[str, str], subprocess.Popen[bytes]]
    ) -> None:
        """`held` says what jobs hold where, `start` begins to kill a node (its service) under a job."""
        self._held, self._start = held, start
        self._under_way: subprocess.Popen[bytes] | None = None

    async def kill(self, job: str, may_hit: Callable[[str], bool]) -> str:
        """Kill a node on which a job of Ray's trains; returns its service. Raises RefusedError, ClusterError.

        `may_hit` tells if another job may lose something by that.
        """
        held = await asyncio.to_thread(self._held)
        if self._under_way is not None and self._under_way.poll() is None:
            raise RefusedError("a fault is under way", "its receipt comes once training has gone on")
        node = aim(job, held, may_hit)
        self._under_way = self._start(node, job)
        return node


def aim(job: str, held: Iterable[Holding], may_hit: Callable[[str], bool]) -> str:
    """The worker node of a job that runs the fewest others. Raises RefusedError where one must not be hit."""
    on: dict[str, set[str]] = {}
    for holding in held:
        on.setdefault(holding.service, set()).add(holding.job)
    others = {node: sorted(jobs - {job}) for node, jobs in on.items() if job in jobs and is_worker(node)}
    if not others:
        raise RefusedError(f"{job} holds nothing of a node", "wait until it trains")
    spared = {node: [other for other in jobs if not may_hit(other)] for node, jobs in others.items()}
    node = min(others, key=lambda name: (len(spared[name]), len(others[name]), name))
    if spared[node]:
        message = f"{node} would be lost to {', '.join(spared[node])}, too"
        raise RefusedError(message, "wait until your job has a node of its own, or ask your teacher")
    return node


def breaker(environ: Mapping[str, str], ray: tuple[str, str]) -> Breaker | None:
    """That of a lab of processes, which says its home and its name; containers are out of reach."""
    home, name = environ.get(HOME_VARIABLE, ""), environ.get("RAYLAB_NAME", "")
    if not home or not name:
        return None
    kept = {variable: value for variable, value in environ.items() if variable in INHERITED}
    own = {HOME_VARIABLE: home, "RAYLAB_NAME": name, "RAYLAB_RUNTIME": "local", "LABCTL_NO_VENV": "1"}
    labctl = (sys.executable, str(Path(ROOT) / "labctl.py"))

    def start(node: str, job: str) -> subprocess.Popen[bytes]:
        argv = (*labctl, "fault-inject", node, "--job", job, "--timeout", LONGEST)
        none = subprocess.DEVNULL  # its moments, on stderr, go to the gateway's log
        environment = {**kept, **own}
        return command.start(argv, env=environment, cwd=home, stdin=none, stdout=none, start_new_session=True)

    return Breaker(lambda: holdings(read(RayApi(*ray))), start)
