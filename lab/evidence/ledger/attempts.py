"""Puts the events of one attempt of a run together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from lab.api.base import Number
from lab.api.ledger import (
    AttemptEnded,
    AttemptScheduled,
    AttemptStarted,
    CheckpointGiven,
    CheckpointLoaded,
    FailureDetected,
    FitEnded,
    FunctionStarted,
    Payload,
    RankGivenUp,
    RankReady,
    RankReplaced,
    Reported,
    Resized,
    StateBegun,
    StateGiven,
    StateHanded,
    TakenUp,
    TrainingStarted,
    WithMetrics,
)
from lab.evidence.ledger.events import Event, Kinds
from lab.evidence.ledger.model import (
    CheckpointRequest,
    Load,
    Remembered,
    Replacement,
    Report,
    RunAttempt,
    State,
    manifest_of,
)

V = TypeVar("V")

Progress = Callable[[Payload], Number | None]
"""What tells the progress of an event, such as `progress_of` with the metric of a run."""


def attempt_of(
    n: int, events: Sequence[Event], progress: Progress, *, groups: bool, steps: bool, reached: Number | None
) -> RunAttempt:
    """Return attempt `n` of the run that has these events.

    `groups`: any rank may report, and an attempt goes on after the loss of one. `steps`: those of optimizers
    are counted. `reached`: the progress of the newest checkpoint before it.
    """
    mine = [e for e in events if e.attempt == n]
    kinds = Kinds(mine)
    replacements = _replacements(mine) if groups else ()
    failures = tuple(e.at for e, _ in kinds.all(FailureDetected))
    failed, ended = failures[0] if failures else None, kinds.first(AttemptEnded)
    if groups:  # the failure that ended it is the last one, after which no rank was given up
        last = failures[-1] if failures and ended is not None else None
        failed = None if last is None or any(r.given_up_at >= last for r in replacements) else last
    over = min((at for at in (failed, ended) if at is not None), default=inf)
    reports = _reports(kinds, progress, steps, reached)
    handed = ((rank, _handed(e.at, said, progress(said))) for rank, e, said in kinds.of_ranks(StateHanded))
    taken_up = (said.reports for _, said in kinds.all(TakenUp))
    fits = [said for _, _, said in kinds.of_ranks(FitEnded)]
    placed = [*kinds.all(AttemptStarted)[:1], *kinds.all(RankReplaced)]
    workers = {rank: worker for _, said in placed for rank, worker in said.workers.items()}
    return RunAttempt(
        number=n,
        nodes={rank: worker.node_id for rank, worker in workers.items() if worker.node_id},
        scheduled_at=kinds.first(AttemptScheduled),
        started_at=kinds.first(AttemptStarted),
        training_started_at=kinds.first(TrainingStarted),
        failure_detected_at=failed,
        ended_at=ended,
        reports=tuple(report for rank, report in reports if groups or rank == 0),
        requests=tuple(
            CheckpointRequest(e.at, rank, said.uri) for rank, e, said in kinds.of_ranks(CheckpointGiven)
        ),
        loads=tuple(
            Load(e.at, rank, said.uri, manifest_of(said.files), said.tensors, said.error or "")
            for rank, e, said in kinds.of_ranks(CheckpointLoaded)
            if said.uri is not None
        ),
        furthest=_furthest(kinds, progress, over),
        pids={rank: worker.pid for rank, worker in workers.items() if worker.pid is not None},
        launched_at={
            rank: said.launched_at for rank, _, said in kinds.of_ranks(RankReady) if said.launched_at
        },
        ready_at=kinds.first_of_ranks(RankReady),
        services={rank: worker.service for rank, worker in workers.items() if worker.service},
        function_started_at=kinds.first_of_ranks(FunctionStarted),
        resized_at=kinds.first(Resized),
        by_rank=_by_rank(reports),
        begun=_by_rank((rank, _begun(e.at, said)) for rank, e, said in kinds.of_ranks(StateBegun)),
        handed=_by_rank(handed),
        writers=frozenset(e.rank for e in mine if e.rank is not None),
        taken_up=max((n for n in taken_up if n is not None), default=None),
        heard_at=max((e.at for e in mine if e.rank == 0), default=None),
        ended_early=fits[-1].by if fits and fits[-1].early else "",
        failures=failures,
        replacements=replacements,
    )


def _furthest(kinds: Kinds, progress: Progress, over: float) -> Number | None:
    """Return the highest progress before it was over that any rank reported, saved or had committed, or that
    the controller had taken up: a rank that is killed may not have written its last report."""
    reached = (progress(said) for e, said in kinds.all(WithMetrics) if e.at <= over)
    return max((value for value in reached if value is not None), default=None)


def _reports(
    kinds: Kinds, progress: Progress, steps: bool, reached: Number | None
) -> list[tuple[int, Report]]:
    """Return the reports of all ranks.

    One before the first step is an evaluation if no rank handed a checkpoint over with it, or if it is no
    further than the checkpoint before; a training may begin without steps, too.
    """
    everything = kinds.of_ranks(Reported)
    saves = {said.report for _, _, said in everything if said.checkpoint or said.handed}
    reports = []
    for rank, e, said in everything:
        value = progress(said)
        repeats = value is not None and reached is not None and value <= reached
        trained = not steps or said.optimizer_steps != 0 or not (repeats or said.report not in saves)
        report = Report(
            e.at, value, said.metrics, said.checkpoint, said.optimizer_steps, trained,
            said.empty_steps or 0, said.rounds, said.report or 0, said.handed or said.checkpoint is not None,
        )  # fmt: skip
        reports.append((rank, report))
    return reports


def _begun(at: float, said: StateBegun) -> State:
    return State(
        **vars(said.state), at=at, optimizer=said.optimizer or 0, gradients=said.gradients,
        loaded=said.loaded, rounds=said.rounds, planned=said.planned, steps=said.steps or 0,
    )  # fmt: skip


def _handed(at: float, said: StateHanded, progress: Number | None) -> State:
    return State(
        **vars(said.state), at=at, report=said.report or 0, changed=said.changed, progress=progress,
        saved=bool(said.handed),
    )  # fmt: skip


def _by_rank(pairs: Iterable[tuple[int, V]]) -> dict[int, tuple[V, ...]]:
    by_rank: dict[int, list[V]] = {}
    for rank, value in pairs:
        by_rank.setdefault(rank, []).append(value)
    return {rank: tuple(by_rank[rank]) for rank in sorted(by_rank)}


def _replacements(events: Iterable[Event]) -> tuple[Replacement, ...]:
    """Return the ranks of an attempt that were given up, each with the process that took its place."""
    lost: list[Replacement] = []
    for event in events:
        said = event.payload
        if isinstance(said, RankGivenUp):
            lost += [
                Replacement(rank, event.at, None, worker.node_id, worker.pid or 0)
                for rank, worker in said.workers.items()
            ]
        elif isinstance(said, RankReplaced):
            lost = [replace(r, at=event.at) if r.rank in said.workers and r.at is None else r for r in lost]
    return tuple(lost)


def states_given(kinds: Kinds) -> tuple[Remembered, ...]:
    """Return the states that a run was given from memory, in order."""
    return tuple(
        Remembered(e.at, said.step, said.source or "", said.tensors or frozenset())
        for e, said in kinds.all(StateGiven)
        if said.step is not None
    )
