"""Puts events together to runs, attempts and checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any

from lab.evidence.ledger.events import Event, Number, number
from lab.evidence.ledger.model import (
    CommittedCheckpoint,
    Files,
    Load,
    Plan,
    Remembered,
    Replacement,
    Report,
    Request,
    Run,
    RunAttempt,
)

PROGRESS_KEYS = ("epoch", "training_iteration", "current_epoch", "step", "global_step")
"""Metrics that can say how far a run is, the preferred one first."""

EPOCH_KEYS = ("epoch", "training_iteration", "current_epoch")
"""Members of PROGRESS_KEYS that can be compared with a planned number of epochs."""

STEP_KEYS = ("step", "global_step")
"""Members of PROGRESS_KEYS that can be compared with a planned number of steps."""

PLAN_KEYS = ("epochs", "num_epochs", "max_epochs", "total_epochs")
"""Keys of `train_loop_config` that can hold the planned number of epochs."""

PLAN_STEP_KEYS = ("steps", "num_steps", "max_steps", "total_steps", "train_steps")
"""Keys of `train_loop_config` that can hold the planned number of steps."""


@dataclass(frozen=True)
class History:
    """All that the ledger of one job says, run by run, in the order in which they began."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Build the history from these events, whatever their order. Those that name no run are left out."""
        groups: dict[tuple[str, str, int], list[Event]] = {}
        starts: Counter[tuple[str, str]] = Counter()
        for event in sorted(events, key=lambda e: e.at):
            if event.run:
                key = (event.job, event.run)
                starts[key] += event.event == "run_started"  # the same name again: another run
                groups.setdefault((*key, starts[key]), []).append(event)
        return cls(tuple(_run(group) for group in groups.values()))


def _run(events: list[Event]) -> Run:
    started = next((e for e in events if e.event == "run_started"), None)
    groups = started is not None and started.fields.get("replica_groups") is True
    reports = [e for e in events if e.event == "report" and (groups or e.rank == 0)]
    key, repeats = _progress_key(reports)
    numbers = sorted({e.attempt for e in events if e.attempt > 0})
    attempts = tuple(_attempt(n, [e for e in events if e.attempt == n], key, groups) for n in numbers)
    finished = next((e for e in events if e.event == "run_finished"), None)
    return Run(
        job=events[0].job,
        name=events[0].run,
        plan=_plan(started.fields) if started else None,
        finished_at=finished.at if finished else None,
        error=str(finished.fields["error"]) if finished and finished.fields.get("error") else None,
        progress_key=key,
        progress_repeats=repeats,
        stride=_stride(attempts),
        attempts=attempts,
        checkpoints=_checkpoints(events, key),
        patches=_patches(started.fields.get("patches")) if started else None,
    )


def _patches(found: object) -> tuple[str, ...] | None:
    return tuple(map(str, found)) if isinstance(found, list) else None


def _plan(fields: Mapping[str, Any]) -> Plan:
    config, resources = _mapping(fields.get("config")), _mapping(fields.get("resources_per_worker"))
    workers, failures = fields.get("num_workers"), fields.get("max_failures")
    epochs, steps = ((number(config.get(key)) for key in keys) for keys in (PLAN_KEYS, PLAN_STEP_KEYS))
    least = None
    if isinstance(workers, list) and workers:
        least, workers = workers[0], workers[-1]
    return Plan(
        epochs=next((n for n in epochs if n is not None and n > 0), None),
        steps=next((n for n in steps if n is not None and n > 0), None),
        num_workers=workers if isinstance(workers, int) else None,
        min_workers=least if isinstance(least, int) else None,
        resources_per_worker={str(k): n for k, v in resources.items() if (n := number(v)) is not None},
        max_failures=failures if isinstance(failures, int) else None,
        num_to_keep=_whole(fields.get("num_to_keep")),
        score_attribute=_text(fields.get("checkpoint_score_attribute")),
        replica_groups=fields.get("replica_groups") is True,
    )


def _attempt(n: int, events: list[Event], key: str | None, groups: bool) -> RunAttempt:
    """`groups`: any rank may report, and an attempt goes on after the loss of one."""
    named: dict[str, list[Event]] = {}
    for event in events:
        named.setdefault(event.event, []).append(event)

    def first(name: str) -> float | None:
        return named[name][0].at if name in named else None

    def by_rank(name: str) -> list[tuple[int, Event]]:
        return [(e.rank, e) for e in named.get(name, ()) if e.rank is not None]

    def first_by_rank(name: str) -> dict[int, float]:
        return {rank: e.at for rank, e in reversed(by_rank(name))}

    replacements = _replacements(events) if groups else ()
    failures = [e.at for e in named.get("failure_detected", ())]
    failed, ended = failures[0] if failures else None, first("attempt_ended")
    if groups:  # the failure that ended it is the last one, after which no rank was given up
        last = failures[-1] if failures and ended is not None else None
        failed = None if last is None or any(r.given_up_at >= last for r in replacements) else last
    over = min((at for at in (failed, ended) if at is not None), default=inf)
    reached = (
        _progress(e.fields, key)
        for name in ("report", "checkpoint_saved", "checkpoint_committed")
        for e in named.get(name, ())
        if e.at <= over
    )
    reports = [(rank, _report(e, key)) for rank, e in by_rank("report")]
    workers = _workers(named["attempt_started"][0]) if "attempt_started" in named else {}
    for event in named.get("rank_replaced", ()):
        workers |= _workers(event)
    return RunAttempt(
        number=n,
        nodes={rank: str(w["node_id"]) for rank, w in workers.items() if w.get("node_id")},
        scheduled_at=first("attempt_scheduled"),
        started_at=first("attempt_started"),
        training_started_at=first("training_started"),
        failure_detected_at=failed,
        ended_at=ended,
        reports=tuple(report for rank, report in reports if groups or rank == 0),
        reported_at=first_by_rank("report"),
        requests=tuple(
            Request(e.at, rank, _text(e.fields.get("uri"))) for rank, e in by_rank("get_checkpoint")
        ),
        loads=tuple(
            Load(e.at, rank, uri, _files(e.fields.get("files")))
            for rank, e in by_rank("checkpoint_loaded")
            if (uri := _text(e.fields.get("uri"))) is not None
        ),
        furthest=max((progress for progress in reached if progress is not None), default=None),
        pids={rank: w["pid"] for rank, w in workers.items() if isinstance(w.get("pid"), int)},
        launched_at={
            rank: at for rank, e in by_rank("rank_ready") if (at := number(e.fields.get("launched_at")))
        },
        ready_at=first_by_rank("rank_ready"),
        services={
            rank: name for rank, e in by_rank("rank_ready") if (name := _text(e.fields.get("service")))
        },
        function_started_at=first_by_rank("function_started"),
        resized_at=first("resized"),
        last_reports=dict(reports),
        ended_early=_ended_early(e for _, e in by_rank("fit_ended")),
        failures=tuple(failures),
        replacements=replacements,
        remembered=_remembered(reports[0][1].metrics) if reports else None,
    )


def _workers(started: Event) -> dict[int, dict[str, Any]]:
    """Return the ranks of an attempt that started, with what the controller says of each."""
    workers = started.fields.get("workers")
    rows = [w for w in workers if isinstance(w, dict)] if isinstance(workers, list) else []
    return {w["rank"]: w for w in rows if isinstance(w.get("rank"), int)}


def _replacements(events: list[Event]) -> tuple[Replacement, ...]:
    """Return the ranks of an attempt that were given up, each with the process that took its place."""
    found: list[Replacement] = []
    for event in events:
        for rank, worker in _workers(event).items():
            if event.event == "rank_given_up":
                node, pid = str(worker.get("node_id") or ""), worker.get("pid")
                found.append(Replacement(rank, event.at, None, node, pid if isinstance(pid, int) else 0))
            elif event.event == "rank_replaced":
                found = [replace(r, at=event.at) if r.rank == rank and r.at is None else r for r in found]
    return tuple(found)


def _remembered(metrics: Mapping[str, Any]) -> Remembered | None:
    """Return the state from memory that an attempt went on from, if the metrics of a report name one."""
    step, source = number(metrics.get("resumed_step")), metrics.get("resumed_from")
    known = step is not None and isinstance(source, str) and source.startswith("memory")
    return Remembered(step, str(source)) if known and step is not None else None


def _ended_early(events: Iterable[Event]) -> str:
    """Return the library that stopped the last fit of an attempt early; empty if none did."""
    fits = [e.fields for e in events]
    return str(fits[-1].get("by")) if fits and fits[-1].get("early") is True else ""


def _whole(value: object) -> int | None:
    found = number(value)
    return found if isinstance(found, int) else None


def _report(event: Event, key: str | None) -> Report:
    return Report(
        event.at,
        _progress(event.fields, key),
        _mapping(event.fields.get("metrics")),
        _text(event.fields.get("checkpoint")),
        _whole(event.fields.get("optimizer_steps")),
    )


def _checkpoints(events: list[Event], key: str | None) -> tuple[CommittedCheckpoint, ...]:
    saves: dict[str, list[Event]] = {}
    committed: dict[str, CommittedCheckpoint] = {}
    for event in events:
        if event.event == "checkpoint_saved" and isinstance(event.fields.get("uri"), str):
            saves.setdefault(event.fields["uri"], []).append(event)
    for event in _commits(events, saves):
        uri = event.fields["uri"]
        if uri in committed:
            continue
        saved = saves.get(uri, [])
        progress = (_progress(e.fields, key) for e in (event, *sorted(saved, key=lambda e: e.rank or 0)))
        manifests = {e.rank: _files(e.fields.get("files")) for e in saved if e.rank is not None}
        files: dict[str, set[str]] = {}
        for manifest in manifests.values():
            for path, sha256 in (manifest or {}).items():
                files.setdefault(path, set()).add(sha256)
        known = bool(manifests) and all(m is not None for m in manifests.values())
        committed[uri] = CommittedCheckpoint(
            uri=uri,
            at=event.at,
            attempt=event.attempt,
            progress=next((p for p in progress if p is not None), None),
            files={path: frozenset(sha256s) for path, sha256s in files.items()} if known else None,
            saved_by=frozenset(rank for rank, manifest in manifests.items() if manifest is not None),
        )
    return tuple(committed.values())


def _commits(events: list[Event], saves: Mapping[str, list[Event]]) -> list[Event]:
    """Return the events that tell of a commit, by time.

    A controller that is killed right after a commit has not recorded this last one. Then it is known from
    what came after: Ray gave the checkpoint to an attempt that had not saved it. Of a controller that has
    recorded nothing, or not what came before, nothing is taken for granted.
    """
    told = [e for e in events if e.event == "checkpoint_committed" and isinstance(e.fields.get("uri"), str)]
    known = {e.fields["uri"] for e in told}
    recorded = {(e.job, e.attempt): e.at for e in told}
    for event in events:
        uri = str(event.fields.get("uri"))
        if event.event != "get_checkpoint" or uri in known or uri not in saves:
            continue
        last_save = saves[uri][-1]
        savers = {(e.job, e.attempt) for e in saves[uri]}
        since = max((recorded[saver] for saver in savers if saver in recorded), default=inf)
        unrecorded = {other for other, saved in saves.items() if since < saved[-1].at <= last_save.at}
        if unrecorded == {uri} and (event.job, event.attempt) not in savers:
            told.append(last_save)
            known.add(uri)
    return sorted(told, key=lambda e: e.at)


def _progress_key(reports: list[Event]) -> tuple[str | None, bool]:
    """Return the metric that says how far the run is, and whether it fails to grow with every report."""
    present = [key for key in PROGRESS_KEYS if any(_progress(e.fields, key) is not None for e in reports)]
    for key in present:
        latest: dict[int, Number] = {}
        for event in reports:
            value = _progress(event.fields, key)
            if value is None:
                continue
            if event.attempt in latest and value <= latest[event.attempt]:
                break
            latest[event.attempt] = value
        else:
            return key, False
    return (present[0], True) if present else (None, False)


def _stride(attempts: Iterable[RunAttempt]) -> Number:
    steps: Counter[Number] = Counter()
    for attempt in attempts:
        values = [r.progress for r in attempt.reports if r.progress is not None]
        steps.update(round(b - a, 9) for a, b in pairwise(values) if b > a)
    return min(steps, key=lambda step: (-steps[step], step)) if steps else 1


def _progress(fields: Mapping[str, Any], key: str | None) -> Number | None:
    return number(_mapping(fields.get("metrics")).get(key)) if key else None


def _files(value: object) -> Files | None:
    """Return the manifest of path -> {"sha256", "size"}, as the probe writes it; None for anything else."""
    if not isinstance(value, dict):
        return None
    sums = {path: entry.get("sha256") if isinstance(entry, dict) else None for path, entry in value.items()}
    files = {path: sha256 for path, sha256 in sums.items() if isinstance(sha256, str)}
    return files if len(files) == len(sums) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
