"""What every fault is: something done on purpose, with a start, an end and a revert."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lab.errors import RefusedError, UnsupportedError, UsageError
from lab.evidence.receipt.expected import Expected
from lab.runtime.base import Feature, OnProgress, Runtime, ignore_progress
from lab.store.base import Store
from lab.topology import State


class Scope(str, Enum):
    """What a fault hits. It decides what may be its target."""

    NODE = "node"
    """A worker node that runs a part of the job."""
    RANK = "training process"
    """The process of a rank; the target is the node it runs on."""
    STORE = "object store"
    CHECKPOINT = "checkpoint"
    """Objects in the store; afterwards a rank is ended, so that training has to load one."""
    CLUSTER = "cluster"
    """The head."""


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
        """`value`, if it is within bounds. Raises UsageError."""
        if not self.low <= value <= self.high:
            raise UsageError(
                f"{self.name}={value:g}: must be between {self.low:g} and {self.high:g} {self.unit}"
            )
        return value


MAX_SECONDS = 3600.0


def lasting(summary: str, default: float | None = None) -> Parameter:
    """The parameter `for`, which the command line also has as --for."""
    return Parameter("for", "s", summary, default, 0.1, MAX_SECONDS)


@dataclass(frozen=True)
class FaultKind:
    """A fault in the catalogue, for a person to choose from."""

    name: str
    summary: str
    scope: Scope
    parameters: tuple[Parameter, ...]
    revert: str
    expected: Expected
    needs: tuple[Feature, ...] = ()
    """What the node must have of its own."""

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Where it can be."""
        return ("compose",) if self.needs else ("local", "compose")

    def settle(self, given: Mapping[str, float]) -> dict[str, float]:
        """Every parameter that has a value: those given, checked, else the defaults. Raises UsageError."""
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
    """As its node counts processes."""


def forget() -> None:
    """For a scene that nobody else needs to know."""


@dataclass(frozen=True)
class Scene:
    """What a fault acts on. In another process a revert has no ranks and no checkpoints, only the memo."""

    runtime: Runtime
    target: str
    """The service."""
    job: str = ""
    """The submission id."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    store: Store | None = None
    ranks: tuple[RankProcess, ...] = ()
    """Those of the attempt that trains now; for a fault of a node or rank only those on `target`."""
    checkpoints: tuple[str, ...] = ()
    """URIs of the run's committed checkpoints, the oldest first."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What the fault has to know to undo itself, as JSON values."""
    remember: Callable[[], None] = forget
    """Keeps the memo on disk. To be called before what it is about is done."""
    on_progress: OnProgress = ignore_progress
    """Is told what a revert that starts services goes through."""


class Fault(ABC):
    """One kind of fault. It knows only the runtime interface, so it works on every runtime alike."""

    kind: FaultKind
    patience: float = 30.0
    """Without a duration it is undone after so many seconds at the latest, if training has not gone on."""
    fires: bool = False
    """Whether `inject` only arms it: it acts later by itself, and the ledger says when (`fault_fired`)."""

    signs: tuple[State, ...] = (State.ABSENT, State.EXITED, State.PAUSED)
    """What its target may be while it lasts and not otherwise, for a fault of a service."""

    @property
    def default_duration(self) -> float | None:
        """Seconds until the revert when the user names none; None: once the job no longer needs the fault to
        last (see lab.flows.recovery)."""
        return next((p.default for p in self.kind.parameters if p.name == "for"), None)

    def refuse(self, scene: Scene) -> None:
        """Raises UnsupportedError or RefusedError where the fault cannot be; changes nothing."""
        check_runtime(self.kind, scene.runtime)

    @abstractmethod
    def inject(self, scene: Scene) -> None:
        """Do it. Returns as soon as it is done; the effect lasts until `revert`."""

    def took(self, scene: Scene) -> bool:
        """Whether it was done all the same, after an `inject` that failed: the runtime is asked."""
        if self.kind.scope in (Scope.RANK, Scope.CHECKPOINT):
            return False
        status = scene.runtime.status().service(scene.target)
        return status is not None and status.state in self.signs

    @abstractmethod
    def revert(self, scene: Scene) -> None:
        """Undo it: afterwards the service is healthy again. May be called twice, and after a failed `inject`.

        Raises ServiceError, WaitTimeoutError.
        """


def check_runtime(kind: FaultKind, runtime: Runtime) -> None:
    """Raises UnsupportedError where the nodes of this runtime lack what the fault needs."""
    for feature in kind.needs:
        why = runtime.missing(feature)
        if why:
            raise UnsupportedError(f"{kind.name} is not possible here: {why}", "use --runtime compose")


def rank_on_target(scene: Scene) -> RankProcess:
    """The rank that the parameter `rank` names, else the lowest one on the target. Raises RefusedError."""
    wanted = scene.parameters.get("rank")
    found = [r for r in scene.ranks if wanted is None or r.rank == int(wanted)]
    if not found:
        there = ", ".join(str(r.rank) for r in scene.ranks) or "none"
        what = f"rank {int(wanted)}" if wanted is not None else "rank"
        raise RefusedError(f"{scene.target} runs no {what} of job {scene.job}", f"ranks there: {there}")
    return min(found, key=lambda r: r.rank)
