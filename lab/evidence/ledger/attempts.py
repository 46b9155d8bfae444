"""Puts the events of one attempt of a run together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from lab.evidence.ledger.events import Event, number
from lab.evidence.ledger.fields import files_of, mapping, progress_of, text, texts, whole
from lab.evidence.ledger.model import (
    CheckpointRequest,
    Load,
    Remembered,
    Replacement,
    Report,
    RunAttempt,
    Weights,
)


class _Named:
    """The events of one attempt, by name and by rank."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events: dict[str, list[Event]] = {}
        for event in events:
            self._events.setdefault(event.event, []).append(event)

    def all(self, name: str) -> Sequence[Event]:
        return self._events.get(name, ())

    def first(self, name: str) -> float | None:
        return self._events[name][0].at if name in self._events else None

    def of_ranks(self, name: str) -> list[tuple[int, Event]]:
        return [(e.rank, e) for e in self.all(name) if e.rank is not None]

    def first_of_ranks(self, name: str) -> dict[int, float]:
        return {rank: e.at for rank, e in reversed(self.of_ranks(name))}


def attempt_of(n: int, events: Sequence[Event], key: str | None, *, groups: bool, steps: bool) -> RunAttempt:
    """Return attempt `n` of the run that has these events, whose progress is the metric `key`.

    `groups`: any rank may report, and an attempt goes on after the loss of one. `steps`: those of optimizers
    are counted.
    """
    mine = [e for e in events if e.attempt == n]
    named = _Named(mine)
    replacements = _replacements(mine) if groups else ()
    failures = tuple(e.at for e in named.all("failure_detected"))
    failed, ended = failures[0] if failures else None, named.first("attempt_ended")
    if groups:  # the failure that ended it is the last one, after which no rank was given up
        last = failures[-1] if failures and ended is not None else None
        failed = None if last is None or any(r.given_up_at >= last for r in replacements) else last
    over = min((at for at in (failed, ended) if at is not None), default=inf)
    reports = [(rank, _report(e, key, steps)) for rank, e in named.of_ranks("report")]
    workers = _workers(named.all("attempt_started")[0]) if named.all("attempt_started") else {}
    for event in named.all("rank_replaced"):
        workers |= _workers(event)
    started = named.first("attempt_started")
    return RunAttempt(
        number=n,
        nodes={rank: str(w["node_id"]) for rank, w in workers.items() if w.get("node_id")},
        scheduled_at=named.first("attempt_scheduled"),
        started_at=started,
        training_started_at=named.first("training_started"),
        failure_detected_at=failed,
        ended_at=ended,
        reports=tuple(report for rank, report in reports if groups or rank == 0),
        requests=tuple(
            CheckpointRequest(e.at, rank, text(e.fields.get("uri")))
            for rank, e in named.of_ranks("get_checkpoint")
        ),
        loads=tuple(
            Load(e.at, rank, uri, files_of(e.fields.get("files")), texts(e.fields.get("tensors")))
            for rank, e in named.of_ranks("checkpoint_loaded")
            if (uri := text(e.fields.get("uri"))) is not None
        ),
        furthest=_furthest(named, key, over),
        pids={rank: w["pid"] for rank, w in workers.items() if isinstance(w.get("pid"), int)},
        launched_at={
            rank: at
            for rank, e in named.of_ranks("rank_ready")
            if (at := number(e.fields.get("launched_at")))
        },
        ready_at=named.first_of_ranks("rank_ready"),
        services={
            rank: name for rank, e in named.of_ranks("rank_ready") if (name := text(e.fields.get("service")))
        },
        function_started_at=named.first_of_ranks("function_started"),
        resized_at=named.first("resized"),
        by_rank={
            rank: tuple(report for other, report in reports if other == rank)
            for rank in sorted({rank for rank, _ in reports})
        },
        weights=_weights(named.of_ranks("weights")),
        writers=frozenset(e.rank for e in mine if e.rank is not None),
        taken_up=_taken_up(named),
        heard_at=max((e.at for e in mine if e.rank == 0), default=None),
        ended_early=_ended_early(e for _, e in named.of_ranks("fit_ended")),
        failures=failures,
        replacements=replacements,
    )


def _furthest(named: _Named, key: str | None, over: float) -> Any:
    """Return the highest progress before it was over that any rank reported, saved or had committed, or that
    the controller had taken up: a rank that is killed may not have written its last report."""
    names = ("report", "checkpoint_saved", "checkpoint_committed", "failure_detected", "attempt_ended")
    reached = (progress_of(e.fields, key) for name in names for e in named.all(name) if e.at <= over)
    return max((progress for progress in reached if progress is not None), default=None)


def _report(event: Event, key: str | None, steps: bool) -> Report:
    done = whole(event.fields.get("optimizer_steps"))
    return Report(
        event.at,
        progress_of(event.fields, key),
        mapping(event.fields.get("metrics")),
        text(event.fields.get("checkpoint")),
        done,
        trained=not steps or done != 0,
    )


def _weights(events: Iterable[tuple[int, Event]]) -> dict[int, Weights]:
    """Return rank -> parameters of all its optimizers; the reason where one of them was not looked at."""
    begun: dict[int, Weights] = {}
    for rank, event in events:
        tensors, why = texts(event.fields.get("tensors")), text(event.fields.get("why")) or ""
        if tensors is None and not why:
            why = "they were not recorded"
        before = begun.get(rank, Weights(event.at, frozenset()))
        begun[rank] = Weights(before.at, before.tensors | (tensors or frozenset()), before.why or why)
    return begun


def _taken_up(named: _Named) -> int | None:
    """Return the number of reports that the controller had taken up when the attempt was over."""
    counts = [
        count
        for name in ("failure_detected", "attempt_ended")
        for e in named.all(name)
        if (count := whole(e.fields.get("reports"))) is not None
    ]
    return max(counts, default=None)


def _workers(started: Event) -> dict[int, dict[str, Any]]:
    """Return the ranks of an attempt that started, with what the controller says of each."""
    workers = started.fields.get("workers")
    rows = [w for w in workers if isinstance(w, dict)] if isinstance(workers, list) else []
    return {w["rank"]: w for w in rows if isinstance(w.get("rank"), int)}


def _replacements(events: Iterable[Event]) -> tuple[Replacement, ...]:
    """Return the ranks of an attempt that were given up, each with the process that took its place."""
    lost: list[Replacement] = []
    for event in events:
        for rank, worker in _workers(event).items():
            if event.event == "rank_given_up":
                node, pid = str(worker.get("node_id") or ""), worker.get("pid")
                lost.append(Replacement(rank, event.at, None, node, pid if isinstance(pid, int) else 0))
            elif event.event == "rank_replaced":
                lost = [replace(r, at=event.at) if r.rank == rank and r.at is None else r for r in lost]
    return tuple(lost)


def states_given(events: Iterable[Event]) -> tuple[Remembered, ...]:
    """Return the states that a run was given from memory, in order."""
    return tuple(
        Remembered(
            e.at, step, text(e.fields.get("source")) or "", texts(e.fields.get("tensors")) or frozenset()
        )
        for e in events
        if e.event == "state_given" and (step := whole(e.fields.get("step"))) is not None
    )


def _ended_early(events: Iterable[Event]) -> str:
    """Return the library that stopped the last fit of an attempt early; empty if none did."""
    fits = [e.fields for e in events]
    return str(fits[-1].get("by")) if fits and fits[-1].get("early") is True else ""
