"""Placement of a job, and whether its ranks could start at all, from the node list and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.cluster.api import Node, infeasible, places
from lab.cluster.jobs import Job

if TYPE_CHECKING:
    from lab.evidence.ledger import History

Ranks = tuple[int, Mapping[str, float]]
"""Number of ranks, and what each asks for."""


@dataclass(frozen=True)
class Placement:
    """Services on which a job runs now."""

    submission_id: str
    driver: str
    """Service of the entrypoint, empty while it has none."""
    workers: tuple[tuple[int, str], ...]
    """(rank, service) of the newest attempt of every run that has not finished."""

    @property
    def services(self) -> tuple[str, ...]:
        """Every service that runs a part of the job, ranks first."""
        return tuple(dict.fromkeys([*(service for _, service in self.workers), *filter(None, [self.driver])]))


def why_ranks_wait(ranks: int, per_rank: Mapping[str, float], nodes: tuple[Node, ...]) -> str:
    """The reason for which `ranks` workers that ask for `each` could not start here; empty if they could."""
    why = infeasible(per_rank, nodes)
    if why:
        return f"{why} (for each rank)"
    fit = places(per_rank, nodes, ranks)
    if fit >= ranks:
        return ""
    asked = " and ".join(f"{amount:g} {resource}" for resource, amount in per_rank.items() if amount > 0)
    return f"only {fit} of {ranks} ranks fit on the nodes; each asks for {asked}"


def why_waits(demand: Mapping[str, float], ranks: Ranks | None, nodes: tuple[Node, ...]) -> str:
    """The reason for which no node could hold an entrypoint, or not all of its ranks; empty if they could."""
    return infeasible(demand, nodes) or ("" if ranks is None else why_ranks_wait(*ranks, nodes))


def going_on(history: History) -> int:
    """Number of runs of a job that have begun and not said that they ended."""
    return sum(
        r.finished_at is None and bool(r.attempts) and r.attempts[-1].ended_at is None for r in history.runs
    )


def place(
    job: Job,
    history: History,
    nodes: tuple[Node, ...],
    living: Collection[tuple[str, int]] | None = None,
) -> Placement:
    """Placement of `job`, from its ledger and the cluster's nodes (dead ones included).

    `living` are (node id, process id) of every rank of the cluster that lives, None when that is not known. A
    run that Ray Tune has stopped does not say that it ended: only its processes tell.
    """
    services = {node.node_id: node.service for node in nodes}
    driver = services.get(job.node_id, "") if not job.final else ""
    workers: list[tuple[int, str]] = []
    for run in history.runs:
        if run.finished_at is None and run.attempts and not job.final:
            newest = run.attempts[-1]
            if newest.ended_at is None:
                workers += [
                    (rank, services.get(node, node[:8]))
                    for rank, node in sorted(newest.nodes.items())
                    if living is None or (node, newest.pids.get(rank)) in living
                ]
    return Placement(job.submission_id, driver, tuple(workers))
