"""What a step of a plan hits, and when: which rank, and for an armed fault at which epoch."""

from __future__ import annotations

import math

from lab.errors import RefusedError
from lab.evidence.ledger import Number, Run
from lab.faults import FaultKind
from lab.flows.chaos.plan import Step
from lab.flows.recovery.trigger import Aim, check_target, take_aim
from lab.flows.recovery.watch import Watch
from lab.lab import Lab

AHEAD_REPORTS = 4
AHEAD_SECONDS = 8.0
"""A fault that has an epoch comes so far after the last one reported: the rank must hear of it first."""


def take_aim_at(lab: Lab, watch: Watch, kind: FaultKind, step: Step) -> tuple[Aim, dict[str, float]]:
    """What the step hits, and what its fault is given.

    That is the target it names; else the rank that its share falls on, or the node of that rank. Raises
    RefusedError, NotFoundError.
    """
    target, given = check_target(lab, step.target, kind), dict(step.parameters)
    attempt = watch.live_attempt
    drawn = None
    if not target and attempt is not None and attempt.nodes:
        ranks = sorted(attempt.nodes)
        drawn = int(given.get("rank", ranks[min(int(step.share * len(ranks)), len(ranks) - 1)]))
        node = attempt.nodes.get(drawn, "")
        target = next((n.service for n in watch.nodes if n.node_id == node), "")
    aim = take_aim(watch, target, kind)
    if aim is None:
        raise RefusedError("the job did not train at that moment", "a longer --every")
    takes_rank = any(parameter.name == "rank" for parameter in kind.parameters)
    if takes_rank and drawn is not None and any(rank.rank == drawn for rank in aim.ranks):
        given["rank"] = float(drawn)
    return aim, given


def next_epoch(run: Run | None, pace: float | None) -> float:
    """One that a rank can still be told of, in the run's own count. `pace`: seconds from report to report."""
    ahead = max(AHEAD_REPORTS, math.ceil(AHEAD_SECONDS / pace) if pace else 0)
    return float(math.ceil(_reached(run) + ahead * (run.stride if run else 1)))


def _reached(run: Run | None) -> Number:
    last = run.last if run else None
    return last.progress if last is not None and last.progress is not None else 0
