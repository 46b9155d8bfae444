"""The base of every fault: something done on purpose, with a start, an end and a revert."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lab.cluster.queues import Queues
from lab.errors import RefusedError, UnsupportedError, UsageError
from lab.evidence.receipt.expected import Expected, Traits
from lab.host.clock import MONOTONIC, Clock, settle
from lab.runtime.base import Feature, NodeControl, OnProgress, ignore_progress
from lab.services import HEAD, QUEUE, STORE
from lab.store.base import Store
from lab.topology import State, Struck


class Scope(str, Enum):
    """The part of the lab that a fault hits."""

    NODE = "node"
    """A worker node that runs a part of the job."""
    RANK = "training process"
    """The process of a rank; the target is the node it runs on."""
    STORE = "object store"
    CHECKPOINT = "checkpoint"
    """Objects in the store; afterwards a rank is ended, so that training has to load one."""
    CLUSTER = "cluster"
    """The head."""
    QUEUE = "queue"
    """The quota of a job that was submitted to a queue."""

    @property
    def target(self) -> str:
        """The one service that such a fault hits; empty: any worker that runs a rank of the job."""
        if self in (Scope.NODE, Scope.RANK):
            return ""
        return {Scope.CLUSTER: HEAD, Scope.QUEUE: QUEUE}.get(self, STORE)


KUBERNETES = "kubernetes"
"""The runtime of clusters that labctl does not run, but can break."""

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
"""Form of the names of faults and parameters: they are part of file names, of keys and of commands."""


@dataclass(frozen=True)
class Parameter:
    """A number that a fault takes, with its unit and bounds. `default` None: there is none."""

    name: str
    unit: str
    """Such as `s`, `ms`, `%`, `Mbit/s`, `epoch`."""
    summary: str
    default: float | None = None
    low: float = 0.0
    high: float = 1e9
    required: bool = False

    def check(self, value: float) -> float:
        """Return `value` if it is within bounds. Raises UsageError."""
        if not self.low <= value <= self.high:
            raise UsageError(
                f"{self.name}={value:g}: must be between {self.low:g} and {self.high:g} {self.unit}"
            )
        return value


MAX_SECONDS = 3600.0


def lasting(summary: str, default: float | None = None) -> Parameter:
    """Return the parameter `for`, which the command line also has as --for."""
    return Parameter("for", "s", summary, default, 0.1, MAX_SECONDS)


@dataclass(frozen=True)
class FaultKind:
    """A fault as the catalogue lists it: its words, its parameters and its traits."""

    name: str
    summary: str
    scope: Scope
    revert: str
    expected: Expected
    traits: Traits
    parameters: tuple[Parameter, ...] = ()
    needs: tuple[Feature, ...] = ()
    """Features that the target's machine must have of its own."""
    clusters: bool = False
    """True if it can be done to a pod of a cluster, through kubectl."""

    def __post_init__(self) -> None:
        """Refuse a malformed kind. Raises ValueError."""
        typed = [
            ("scope", self.scope, Scope),
            ("expected", self.expected, Expected),
            ("traits", self.traits, Traits),
            *(("parameters", parameter, Parameter) for parameter in self.parameters),
            *(("needs", feature, Feature) for feature in self.needs),
        ]
        for what, value, wanted in typed:
            if not isinstance(value, wanted):
                raise ValueError(f"fault {self.name!r}: {what}: expected {wanted.__name__}, not {value!r}")
        names = [parameter.name for parameter in self.parameters]
        for name in (self.name, *names):
            if not (isinstance(name, str) and NAME.fullmatch(name)):
                raise ValueError(
                    f"{name!r} is not a valid name: lower-case letters, digits and hyphens, up to 40"
                )
        for what, text in (
            ("summary", self.summary), ("revert", self.revert), ("traits.effect", self.traits.effect)
        ):  # fmt: skip
            if not (isinstance(text, str) and text.strip()):
                raise ValueError(f"fault {self.name!r}: {what} is empty")
        if len(set(names)) < len(names):
            raise ValueError(f"fault {self.name!r}: two parameters have one name")
        if self.traits.delay and self.traits.delay not in names:
            raise ValueError(f"fault {self.name!r}: traits.delay: it has no parameter {self.traits.delay!r}")
        for parameter in self.parameters:
            if parameter.default is not None:
                try:
                    parameter.check(parameter.default)
                except UsageError as error:
                    raise ValueError(f"fault {self.name!r}: the default {error.message}") from None

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Runtimes on which it is possible."""
        if Feature.CORDON in self.needs:
            return (KUBERNETES,)
        labs = ("compose",) if self.needs else ("local", "compose")
        return (*labs, KUBERNETES) if self.clusters else labs

    def settle(self, given: Mapping[str, float]) -> dict[str, float]:
        """Return every parameter that has a value: those given, checked, else the defaults.

        Raises UsageError.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                takes = ", ".join(known) or "none"
                raise UsageError(f"{self.name} has no parameter {name!r}", f"it takes: {takes}")
        missing = [p.name for p in self.parameters if p.required and p.name not in given]
        if missing:
            raise UsageError(f"{self.name} needs a value for {missing[0]}", f"-p {missing[0]}=NUMBER")
        values = {name: p.default for name, p in known.items() if p.default is not None}
        return values | {name: known[name].check(value) for name, value in given.items()}


@dataclass(frozen=True)
class RankProcess:
    """The process of one rank of the attempt that trains."""

    rank: int
    service: str
    pid: int
    """Process id as its node counts processes."""


@dataclass(frozen=True)
class Scene:
    """The surroundings that a fault acts on.

    A revert in another process has no ranks and no checkpoints, only the memo.
    """

    runtime: NodeControl
    """The lab, to break it."""
    target: str
    """The service."""
    job: str = ""
    """The submission id."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    node_id: str = ""
    """Ray's id of the target, where it is a node that trains."""
    store: Store | None = None
    queues: Queues | None = None
    ranks: tuple[RankProcess, ...] = ()
    """Ranks of the attempt that trains now; for a fault of a node or rank only those on `target`."""
    checkpoints: tuple[str, ...] = ()
    """URIs of the run's committed checkpoints, the oldest first."""
    memo: dict[str, Any] = field(default_factory=dict)
    """JSON values that the revert needs."""
    remember: Callable[[], None] = lambda: None
    """Writes the memo to disk. To be called before what it is about is done: `note` does so."""
    on_progress: OnProgress = ignore_progress
    """Receives the steps of a revert that starts services."""

    def note(self, **values: object) -> None:
        """Add to the memo, on disk too."""
        self.memo.update(values)
        self.remember()

    def state(self, service: str = "") -> State | None:
        """Return the state of `service`, by default of the target; None if the lab has no such service."""
        status = self.runtime.status().service(service or self.target)
        return status.state if status is not None else None

    def start(self) -> None:
        """Start the target, if it does not run, and wait until it is healthy.

        Raises ServiceError, WaitTimeoutError.
        """
        self.runtime.start(self.target, self.on_progress)

    def start_if_down(self) -> None:
        """Start the target again if it did not survive the fault. Raises ServiceError, WaitTimeoutError."""
        if self.state() is not State.HEALTHY:
            self.start()


SETTLE_SECONDS = 4.0
"""Time that a node gets to find out that the cluster has given it up (its raylet then ends itself)."""


class Fault(ABC):
    """One kind of fault. It knows only NodeControl, so it works on every runtime alike."""

    kind: FaultKind
    patience: float = 30.0
    """Seconds after which it is reverted at the latest, if it has no duration and training does not go on."""
    fires: bool = False
    """True if `inject` only arms it: it acts later by itself, and the ledger says when (`fault_fired`)."""
    signs: tuple[State, ...] = (State.ABSENT, State.EXITED, State.PAUSED)
    """States of the target that show the fault was done, for a fault of a service."""
    source: str = ""
    """File of a fault of one's own; empty for the lab's own faults."""

    def __init__(self, clock: Clock = MONOTONIC) -> None:
        """`clock` is for what the fault waits for."""
        self.clock = clock

    def refuse(self, scene: Scene) -> None:
        """Refuse a fault that is not possible, and change nothing. Raises UnsupportedError, RefusedError."""
        check_runtime(self.kind, scene.runtime)

    @abstractmethod
    def inject(self, scene: Scene) -> Struck | None:
        """Do it. Returns as soon as it is done; the effect lasts until `revert`.

        Returns when, where that is known better than by when it was called and when it returned.
        """

    def took(self, scene: Scene) -> bool:
        """Ask the runtime whether the fault was done although `inject` failed."""
        return self.kind.scope not in (Scope.RANK, Scope.CHECKPOINT) and scene.state() in self.signs

    def revert(self, scene: Scene) -> None:
        """Undo it, so that the service is healthy again; by default, start the target.

        May be called twice, and after a failed `inject`. Raises ServiceError, WaitTimeoutError.
        """
        scene.start()

    def come_back(self, scene: Scene) -> None:
        """Bring a node back that was cut off while it lived: the cluster may have given it up meanwhile.

        It is then the node it was, or has ended itself and been started again as a new one. Raises
        ServiceError, WaitTimeoutError.
        """
        gone = (None, State.ABSENT, State.EXITED)
        settle(scene.state, lambda state: state in gone, timeout=SETTLE_SECONDS, clock=self.clock)
        scene.start_if_down()


def check_runtime(kind: FaultKind, runtime: NodeControl) -> None:
    """Refuse a runtime whose nodes lack what the fault needs. Raises UnsupportedError."""
    hint = f"use --runtime {kind.runtimes[0]}"
    for feature in (*kind.needs, *(() if kind.clusters else (Feature.PROCESSES,))):
        why = runtime.missing(feature)
        if why:
            raise UnsupportedError(f"{kind.name} is not possible here: {why}", hint)


def rank_on_target(scene: Scene) -> RankProcess:
    """Return the rank that the parameter `rank` names, else the lowest on the target. Raises RefusedError."""
    wanted = scene.parameters.get("rank")
    candidates = [r for r in scene.ranks if wanted is None or r.rank == int(wanted)]
    if not candidates:
        there = ", ".join(str(r.rank) for r in scene.ranks) or "none"
        what = f"rank {int(wanted)}" if wanted is not None else "rank"
        raise RefusedError(f"{scene.target} runs no {what} of job {scene.job}", f"ranks there: {there}")
    return min(candidates, key=lambda r: r.rank)
