"""Decides where processes should stand by for a run's next attempt, and asks for those that are missing.

They are asked for one node after another, the most useful first: the controller's, with the small process
beside the ranks; nodes without a rank of the run, where it goes on when a node is lost; those of the ranks.
Imports take seconds of a core that the training could use: a run that is soon over has paid for one process,
not for one of each node.

What it asks of Ray is given to it, so nothing here imports Ray.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from raylab_probe import warm
from raylab_probe.raylets import Claims, Process, Raylets

PATIENCE_SECONDS = 15.0
"""An attempt that has not reported after this gets its standby processes all the same."""

TURN_SECONDS = 20.0
"""How long the other nodes wait for the processes of one to be ready, at most."""

USERS_FOLDERS = ("working_dir_files", "py_modules_files")
"""Where Ray puts what a job brings along; its modules may do something when they are imported."""


@dataclass(frozen=True)
class Recipe:
    """What a process needs to be used by an attempt: the runtime environment, its hash, the modules."""

    environment: str
    hash: str
    modules: tuple[str, ...] = field(repr=False)


Need = tuple[Recipe, int]
"""A kind of process, and how many of it."""


def imported(modules: Mapping[str, ModuleType | None]) -> tuple[str, ...]:
    """The names of these modules that another process can import, in the order in which they were."""
    names = []
    for name, module in list(modules.items()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        if spec is None or spec.name != name or not isinstance(origin, str):
            continue
        if name.partition(".")[0] == "__main__" or any(folder in origin for folder in USERS_FOLDERS):
            continue
        names.append(name)
    return tuple(names)


def wanted(node: Mapping[str, Any], resources: Mapping[str, float], ranks: int, limit: int) -> int:
    """How many processes this node of Ray's list should keep ready for a run of so many ranks."""
    if not node.get("Alive"):
        return 0
    total = node.get("Resources") or {}
    asked = [(name, amount) for name, amount in resources.items() if amount > 0]
    fit = min((int(total.get(name, 0.0) / amount + 1e-6) for name, amount in asked), default=ranks)
    return min(fit, ranks, limit)


def in_turn(
    nodes: Sequence[Mapping[str, Any]], controller: str, ranks: Collection[str]
) -> list[Mapping[str, Any]]:
    """Ray's list of nodes, in the order in which they get their processes."""

    def turn(node: Mapping[str, Any]) -> int:
        name = node.get("NodeID")
        return 0 if name == controller else 2 if name in ranks else 1

    return sorted(nodes, key=turn)


def merged(ranks: Need, beside: Need) -> list[Need]:
    """What one node keeps for ranks and for the actor beside them: one kind where either can use it."""
    if ranks[1] and ranks[0].hash == beside[0].hash:
        names = dict.fromkeys((*ranks[0].modules, *beside[0].modules))
        return [(replace(ranks[0], modules=tuple(names)), ranks[1] + beside[1])]
    return [ranks, beside]


class Keeper:
    """Looks after the standby processes of one run, in a thread of its controller."""

    def __init__(
        self,
        raylets: Raylets,
        claims: Claims,
        job: str,
        here: str,
        companion: Callable[[], Recipe],
        *,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`job` is Ray's, in hex; `here` the controller's node, `companion` the recipe of what it keeps."""
        self._raylets, self._claims, self._job, self._here = raylets, claims, job, here
        self._companion, self._limit, self._clock = companion, limit, clock
        self._lock = threading.Lock()
        self._describe: Callable[[], Recipe] | None = None
        self._recipe: Recipe | None = None
        self._resources: Mapping[str, float] = {}
        self._ranks: Sequence[str] = ()
        self._asked: dict[str, float] = {}
        self._since = 0.0
        self._told: set[str] = set()
        self._left: set[str] = set()

    def train(
        self, describe: Callable[[], Recipe], resources: Mapping[str, float], ranks: Sequence[str]
    ) -> None:
        """An attempt trains: `ranks` has each rank's node; `describe` asks one of them for its recipe."""
        with self._lock:
            self._describe, self._recipe = describe, None
            self._resources, self._ranks, self._since = dict(resources), tuple(ranks), self._clock()

    def reported(self) -> None:
        """It has reported: what a training imports is imported, and the machine is less busy."""
        with self._lock:
            self._since = min(self._since, self._clock() - PATIENCE_SECONDS)

    def rest(self) -> None:
        """The attempt is over: nothing is asked for until the next one trains."""
        with self._lock:
            self._describe = None

    def look(self) -> None:
        """Ask for what is missing on the first node that misses something, and is not waited for in vain.

        What fails is printed, each kind once.
        """
        with self._lock:
            describe, resources, ranks = self._describe, self._resources, self._ranks
            if describe is None or self._clock() - self._since < PATIENCE_SECONDS:
                return
            known = self._recipe
        try:
            if known is None:
                known = describe()
                with self._lock:
                    self._recipe = known if self._describe is describe else None
            busy = self._raylets.busy(self._job)
            for node in in_turn(self._raylets.nodes(), self._here, ranks):
                needs = [(known, wanted(node, resources, len(ranks), self._limit))]
                if node.get("NodeID") == self._here:
                    needs = merged(needs[0], (self._companion(), int(bool(node.get("Alive")))))
                waits = [self._attend(node, recipe, count, busy) for recipe, count in needs]
                if waits[0]:  # not for the process beside the ranks, which is soon ready
                    return
        except Exception as error:
            self._tell(error)

    def _attend(self, node: Mapping[str, Any], what: Recipe, count: int, busy: Collection[Process]) -> bool:
        """Ask for what this node misses; whether the other nodes should wait for it."""
        if count < 1 or not what.hash:
            return False
        here = str(node["NodeID"])
        where = warm.place(self._job, what.hash, here)
        try:
            living = self._raylets.pids(node)
            ready = self._claims.ready(where, living, {pid for each, pid in busy if each == here})
            if ready >= count:
                self._claims.settle(where)
                self._asked.pop(where, None)
                return False
            if self._claims.claim(where, what.modules):
                self._left.add(where)
                self._raylets.prestart(node, self._job, what.environment, count - ready)
                self._asked.setdefault(where, self._clock())
            return where in self._asked and self._clock() - self._asked[where] < TURN_SECONDS
        except Exception as error:  # a node that has just died, or is frozen
            self._tell(error)
            return False

    def end(self) -> None:
        """The run is over."""
        self.rest()
        for where in self._left:
            self._claims.forget(where)

    def _tell(self, error: Exception) -> None:
        kind = type(error).__name__
        if kind not in self._told:
            self._told.add(kind)
            print(f"raylab: no process stands by for the next attempt: {error!r}"[:400], flush=True)
