"""The rungs of the ladder: in what each differs from the one below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.cluster.patches import OFF_VARIABLE
from lab.errors import UsageError

FAULTS = ("rank-kill", "kill")
"""Faults that may be injected: the process of a rank, or its node."""


@dataclass(frozen=True)
class Rung:
    """A way of recovery, as the settings of a lab, of a job, and of its training."""

    name: str
    title: str
    """What it is, in words that need no knowledge of the lab: labels of pictures."""
    summary: str
    way: str = "checkpoint"
    """Of the recipe `digits`, as `--fault-tolerance` has it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stock_ray: bool = False
    seconds: float = 10.0
    """All but the steps on two idle cores: start of the training, loss, return, end."""


RUNGS = (
    Rung("stock", "stock Ray", "Ray as it is", stock_ray=True, seconds=55.0),
    Rung(
        "settings",
        "settings tuned",
        "the lab's settings and patches",
        environment={OFF_VARIABLE: "forks"},
        seconds=30.0,
    ),
    Rung("forked", "processes forked", "and forked processes: a lab as `up` starts it"),
    Rung("elastic", "fewer ranks go on", "and goes on with fewer ranks", settings={"min-workers": "1"}),
    Rung("memory", "state in a neighbour's memory", "the newest state in a neighbour's memory", way="memory"),
    Rung("torchft", "nobody else stops", "nobody stops but the lost rank", way="torchft", seconds=15.0),
)
"""All of them, the lowest first."""


def rungs_named(names: Sequence[str]) -> tuple[Rung, ...]:
    """Return these rungs in the order of the ladder; all where none is named. Raises UsageError."""
    known = {rung.name: rung for rung in RUNGS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"--rungs: there is no rung {unknown[0]!r}", f"there are: {', '.join(known)}")
    return tuple(rung for rung in RUNGS if not names or rung.name in names)
