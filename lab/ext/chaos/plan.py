"""The plan of a chaos run, drawn from a seed or written down: the same every time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lab.errors import RefusedError, UsageError
from lab.faults import FaultKind, Scope, find_fault

MAX_STEPS = 100_000


@dataclass(frozen=True)
class Step:
    """One fault of a plan."""

    at: float
    """Seconds after the job began to train. It comes later where the fault before it is not over yet."""
    kind: str
    target: str = ""
    """The service; empty: `share` decides."""
    share: float = 0.0
    """Rank that is hit, from 0 (the first) to 1 (the last), where the fault is one of a node or a rank."""
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A chaos run as requested. Raises NotFoundError, UsageError, RefusedError for what makes no sense."""

    kinds: tuple[str, ...] = ()
    """Faults to draw from; not used where `written` holds steps."""
    every: float = 30.0
    """Seconds from one fault to the next."""
    seed: int = 0
    limit: int | None = None
    """Most faults; None: until the job ends."""
    seconds: float | None = None
    """Seconds after which nothing is injected; None: until the job ends."""
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Fault -> its parameters."""
    written: tuple[Step, ...] = ()
    below_one: bool = False
    """Lets a fault take the last healthy worker."""

    def __post_init__(self) -> None:
        if not self.kinds and not self.written:
            raise UsageError(
                "no fault to draw from", "for example --faults kill,pause; all: labctl fault-inject --list"
            )
        if self.every <= 0:
            raise UsageError(f"every {self.every:g} s: must be more than zero")
        other = next((kind for kind in self.parameters if kind not in self.kinds), None)
        if other is not None:
            raise UsageError(f"{other} is not among the faults, but has parameters", "add it to --faults")
        for kind in self.kinds:
            check_step(Step(0.0, kind, parameters=self.parameters.get(kind, {})))

    def steps(self) -> Iterator[Step]:
        for number, step in enumerate(self.written or self._drawn()):
            if self.limit is not None and number >= self.limit:
                return
            if self.seconds is not None and step.at > self.seconds:
                return
            yield step

    def _drawn(self) -> Iterator[Step]:
        """Every kind once in a random order, then again in another one: the same for the same seed."""
        draw = random.Random(self.seed)
        number = 0
        while number < MAX_STEPS:
            bag = list(self.kinds)
            draw.shuffle(bag)
            for kind in bag:
                number += 1
                yield Step(
                    number * self.every, kind, share=draw.random(), parameters=self.parameters.get(kind, {})
                )


def check_step(step: Step) -> None:
    """Refuse a fault that makes no sense in a chaos run. Raises NotFoundError, UsageError, RefusedError."""
    kind = find_fault(step.kind).kind
    if kind.scope is Scope.CLUSTER:
        raise RefusedError(
            f"{step.kind} ends the job in most labs, so nothing could follow it",
            "labctl fault-inject ray-head",
        )
    if kind.scope is Scope.QUEUE:
        raise RefusedError(
            f"{step.kind} takes the job away from the lab for a time, so other faults would miss it",
            f"labctl fault-inject --fault {step.kind}",
        )
    kind.settle(with_epoch(kind, step.parameters))


def with_epoch(kind: FaultKind, given: Mapping[str, float], epoch: float | None = None) -> dict[str, float]:
    """The given parameters, with the epoch (None: any) that a chaos run adds for a fault that needs one."""
    needed = next((p for p in kind.parameters if p.name == "epoch" and p.required), None)
    if needed is None:
        return dict(given)
    return {"epoch": needed.low if epoch is None else epoch, **given}
