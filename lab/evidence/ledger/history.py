"""Puts events together to runs.

A job may start Ray Train's controller several times for one run: its driver was restarted, by Ray Tune or by
the script, or another job took its place. Each controller counts its attempts from 1. Those of one name
belong to one run, as Ray Train has it too, as long as the ones before did not end without an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lab.api.base import Number
from lab.api.ledger import Reported, RunFinished, RunStarted
from lab.api.lenient import number
from lab.evidence.ledger.attempts import attempt_of, states_given
from lab.evidence.ledger.commits import committed, perhaps_committed, saves_of
from lab.evidence.ledger.events import Event, Kinds, in_order, of_kind
from lab.evidence.ledger.fields import progress_of
from lab.evidence.ledger.model import Run, RunAttempt, TrainingPlan

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
        """Build the history from these events, whatever their order, and however often each is among them.

        Events that name no run are left out.
        """
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in in_order(_once(events)):
            if event.run:
                groups.setdefault((event.job, event.run), []).append(event)
        runs = [run for group in groups.values() for run in _runs(group)]
        return cls(tuple(run for _, run in sorted(runs, key=lambda pair: pair[0])))


def _once(events: Iterable[Event]) -> Iterable[Event]:
    counted: dict[tuple[str, int], Event] = {}
    for event in events:
        if event.stream:
            counted.setdefault((event.stream, event.number), event)
        else:
            yield event
    yield from counted.values()


def _runs(events: Sequence[Event]) -> list[tuple[float, Run]]:
    """Return the runs of one name, each with the time of its first event."""
    chains: list[list[list[Event]]] = []
    for mine in _controllers(events):
        if chains and not _ended_well(chains[-1][-1]):
            chains[-1].append(mine)
        else:
            chains.append([mine])
    return [(chain[0][0].at, _run(chain)) for chain in chains]


def _controllers(events: Sequence[Event]) -> list[list[Event]]:
    """Return the events of each controller of a run and of its ranks, in the order in which they began.

    Events that name no controller, as those of who keeps states in memory, are those of the one that had last
    started.
    """
    groups: dict[str, list[Event]] = {}
    unnamed: list[Event] = []
    for event in events:
        (groups.setdefault(event.run_id, []) if event.run_id else unnamed).append(event)
    started = sum(1 for _ in of_kind(unnamed, RunStarted))
    parts = list(groups.values()) or [[] for _ in range(max(1, started))]
    begins = (
        [part[0].at for part in parts if part]
        or [e.at for e, _ in of_kind(unnamed, RunStarted)]
        or [events[0].at]
    )
    for event in unnamed:
        place = sum(event.at >= at for at in begins) - 1
        parts[max(0, place)].append(event)
    return [list(in_order(part)) for part in parts if part]


def _ended_well(events: Iterable[Event]) -> bool:
    return any(not said.error for _, said in of_kind(events, RunFinished))


def _run(controllers: Sequence[Sequence[Event]]) -> Run:
    """Put the events of one run together, controller by controller."""
    parts, last = _renumbered(controllers), controllers[-1]
    events = [event for part in parts for event in part]
    kinds = Kinds(events)
    started = next((said for _, said in kinds.all(RunStarted)), None)
    groups = started is not None and started.replica_groups
    reports = kinds.all(Reported)
    key, repeats = _progress_key([(e, said) for e, said in reports if groups or e.rank == 0])
    steps = any(said.optimizer_steps for _, said in reports)
    attempts = tuple(
        replace(attempt_of(n, part, key, groups=groups, steps=steps), controller=number)
        for number, part in enumerate(parts)
        for n in sorted({e.attempt for e in part if e.attempt > 0})
    )
    saves = saves_of(kinds)
    perhaps = perhaps_committed(kinds, saves)
    finished_at, finished = next(((e.at, said) for e, said in of_kind(last, RunFinished)), (None, None))
    return Run(
        job=events[0].job,
        name=events[0].run,
        plan=_plan(started) if started else None,
        finished_at=finished_at,
        error=finished.error or None if finished else None,
        progress_key=key,
        progress_repeats=repeats,
        stride=_stride(attempts),
        attempts=attempts,
        checkpoints=committed(kinds, saves, perhaps, key),
        given=states_given(kinds),
        perhaps_committed=perhaps,
        patches=started.patches if started else None,
        missing=(*_missing(events), *_without_controller(controllers)),
    )


def _renumbered(controllers: Sequence[Sequence[Event]]) -> list[list[Event]]:
    """Return the events of each controller, with the attempts counted through."""
    parts: list[list[Event]] = []
    before = 0
    for mine in controllers:
        parts.append([replace(e, attempt=e.attempt + before) if e.attempt and before else e for e in mine])
        before = max([before, *(e.attempt for e in parts[-1])])
    return parts


def _missing(events: Iterable[Event]) -> tuple[str, ...]:
    """Return a sentence for each process that left out numbers, and one where events are not counted."""
    seen: dict[str, set[int]] = {}
    for event in events:
        seen.setdefault(event.stream, set()).add(event.number)
    uncounted = seen.pop("", None)
    gaps = [
        f"{max(numbers) - len(numbers)} of the first {max(numbers)} events of {stream} are missing"
        for stream, numbers in sorted(seen.items())
        if len(numbers) < max(numbers)
    ]
    if uncounted is not None:
        gaps.append("it does not count its events: whether some are missing is not known")
    return tuple(gaps)


def _without_controller(controllers: Iterable[Iterable[Event]]) -> Iterable[str]:
    """Yield a sentence for each controller of which only its ranks tell."""
    for mine in controllers:
        if not any(True for _ in of_kind(mine, RunStarted)):
            yield "a controller has not recorded its start"


def _plan(started: RunStarted) -> TrainingPlan:
    epochs, steps = (
        (number(started.config.get(key)) for key in keys) for keys in (PLAN_KEYS, PLAN_STEP_KEYS)
    )
    least, most = started.num_workers
    kept = started.num_to_keep
    return TrainingPlan(
        epochs=next((n for n in epochs if n is not None and n > 0), None),
        steps=next((n for n in steps if n is not None and n > 0), None),
        num_workers=most,
        min_workers=least,
        resources_per_worker=started.resources_per_worker,
        max_failures=started.max_failures,
        num_to_keep=None if kept == "all" else kept,
        keeps_all=kept == "all",
        score_attribute=started.checkpoint_score_attribute,
        replica_groups=started.replica_groups,
    )


def _progress_key(reports: Sequence[tuple[Event, Reported]]) -> tuple[str | None, bool]:
    """Return the metric that says how far the run is, and whether it fails to grow with every report."""
    named = set[str]().union(*(said.metrics for _, said in reports))
    present = [
        key
        for key in PROGRESS_KEYS
        if key in named and any(progress_of(said, key) is not None for _, said in reports)
    ]
    for key in present:
        latest: dict[int, Number] = {}
        for event, said in reports:
            value = progress_of(said, key)
            if value is None:
                continue
            if event.attempt in latest and value <= latest[event.attempt]:
                break
            latest[event.attempt] = value
        else:
            return key, False
    return (present[0], True) if present else (None, False)


def _stride(attempts: Iterable[RunAttempt]) -> Number:
    steps = Counter(
        round(b - a, 9)
        for attempt in attempts
        for a, b in pairwise(r.progress for r in attempt.reports if r.progress is not None)
        if b > a
    )
    return min(steps, key=lambda step: (-steps[step], step)) if steps else 1
