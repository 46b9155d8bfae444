"""Picks what a step of a plan hits: the rank, and for an armed fault the epoch."""

from __future__ import annotations

import math

from lab.errors import RefusedError
from lab.evidence.ledger import Number, Run
from lab.faults import FaultKind
from lab.flows.chaos.plan import Step
from lab.flows.recovery import Aim, Watch, check_target, take_aim

AHEAD_REPORTS = 4
AHEAD_SECONDS = 8.0
"""Distance of a fault's epoch from the last one reported, in reports and at least in seconds: the rank must
hear of it first."""


def pick_target(watch: Watch, kind: FaultKind, step: Step) -> tuple[Aim, dict[str, float]]:
    """The aim of a step, and the parameters that its fault is given.

    It hits the target that it names; else the rank that its share falls on, or the node of that rank. Raises
    RefusedError, NotFoundError.
    """
    target, given = check_target(watch.lab.control, step.target, kind), dict(step.parameters)
    attempt = watch.live_attempt
    drawn = None
    if not target and attempt is not None and attempt.nodes:
        ranks = sorted(attempt.nodes)
        drawn = int(given.get("rank", ranks[min(int(step.share * len(ranks)), len(ranks) - 1)]))
        node = attempt.nodes.get(drawn, "")
        target = next((n.service for n in watch.nodes if n.node_id == node), "")
    aim = take_aim(watch, target, kind)
    if aim is None:
        raise RefusedError("the job did not train at that moment", "choose a longer --every")
    takes_rank = any(parameter.name == "rank" for parameter in kind.parameters)
    if takes_rank and drawn is not None and any(rank.rank == drawn for rank in aim.ranks):
        given["rank"] = float(drawn)
    return aim, given


def next_epoch(run: Run | None, pace: float | None) -> float:
    """The first epoch that a rank can still be told of, as the run counts. `pace`: seconds per report."""
    ahead = max(AHEAD_REPORTS, math.ceil(AHEAD_SECONDS / pace) if pace else 0)
    return float(math.ceil(_reached(run) + ahead * (run.stride if run else 1)))


def _reached(run: Run | None) -> Number:
    last = run.last if run else None
    return last.progress if last is not None and last.progress is not None else 0
