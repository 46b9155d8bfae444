"""Puts events together to runs.

A job may start Ray Train's controller several times for one run: its driver was restarted, by Ray Tune or by
the script, or another job took its place. Each controller counts its attempts from 1. Those of one name
belong to one run, as Ray Train has it too, as long as the ones before did not end without an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import inf

from lab.api.base import Number
from lab.api.ledger import (
    CheckpointCommitted,
    CheckpointLoaded,
    Reported,
    RunFinished,
    RunStarted,
    TrialStopped,
)
from lab.api.lenient import number
from lab.evidence.ledger.attempts import attempt_of, states_given
from lab.evidence.ledger.commits import committed, perhaps_committed, saves_of
from lab.evidence.ledger.events import Event, Kinds, in_order, of_kind
from lab.evidence.ledger.model import (
    COUNTED,
    ROUND,
    CommittedCheckpoint,
    Run,
    RunAttempt,
    State,
    TrainingPlan,
    progress_of,
)

EPOCH_KEYS, STEP_KEYS = ("epoch", "training_iteration", "current_epoch"), ("step", "global_step")
"""Metrics that can be compared with a planned number of epochs, and those with one of steps."""

PROGRESS_KEYS = (*EPOCH_KEYS, *STEP_KEYS)
"""Metrics that can say how far a run is, the preferred one first."""

PLAN_KEYS = ("epochs", "num_epochs", "max_epochs", "total_epochs")
"""Keys of `train_loop_config` that can hold the planned number of epochs."""

PLAN_STEP_KEYS = ("steps", "num_steps", "max_steps", "total_steps", "train_steps")
"""Keys of `train_loop_config` that can hold the planned number of steps."""


def progress_in(metrics: Mapping[str, object]) -> Number | None:
    """Return the epoch or step that a report names, which others may name, too; None where it names none."""
    return next((n for key in PROGRESS_KEYS if (n := number(metrics.get(key))) is not None), None)


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
        trials: dict[str, str] = {}  # of Ray Tune -> its run
        for event in in_order(_once(events)):
            said = event.payload
            if isinstance(said, RunStarted) and said.trial:
                trials[said.trial] = event.run
            run = event.run or (trials.get(said.trial or "", "") if isinstance(said, TrialStopped) else "")
            if run:
                groups.setdefault((event.job, run), []).append(event)
        runs = [run for group in _continued(groups) for run in _runs(group)]
        return cls(tuple(run for _, run in sorted(runs, key=lambda pair: pair[0])))


def _continued(groups: Mapping[tuple[str, str], list[Event]]) -> Iterable[list[Event]]:
    """Return the events of each run. A driver may begin one of another name with the checkpoint of one
    that ended with an error: that is the same run."""
    merged: list[list[Event]] = []
    for mine in groups.values():
        first = min((e.attempt for e in mine if e.attempt > 0), default=0)
        begin = next((e.at for e, _ in of_kind(mine, Reported) if e.attempt == first), inf)
        loads = {s.uri for e, s in of_kind(mine, CheckpointLoaded) if e.attempt == first and e.at <= begin}
        other = next((part for part in merged if _failed(part) and loads & _committed(part)), None)
        if other is None:
            merged.append(mine)
        else:
            other += [replace(e, run=other[0].run) for e in mine]
    return merged


def _failed(events: Iterable[Event]) -> bool:
    return any(said.error for _, said in of_kind(events, RunFinished)) and not _ended_well(events)


def _committed(events: Iterable[Event]) -> set[str | None]:
    return {said.uri for _, said in of_kind(events, CheckpointCommitted)}


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
    leading = [(e, said) for e, said in reports if groups or e.rank == 0]
    key, repeats = _progress_key(leading)
    if key is None or repeats:
        key, repeats = _counted_by_itself(leading) or key, repeats and not _counted_by_itself(leading)
    steps = any(said.optimizer_steps for _, said in reports)
    commits = [(e.attempt, progress_of(said, key)) for e, said in kinds.all(CheckpointCommitted)]
    saves = saves_of(kinds)
    perhaps = perhaps_committed(kinds, saves)
    checkpoints = committed(kinds, saves, perhaps, key)
    if key == COUNTED:
        checkpoints = _counted_through(checkpoints)
    attempts = tuple(
        replace(
            attempt_of(
                n, part, partial(progress_of, key=key, behind=_behind(checkpoints, n)),
                groups=groups, steps=steps, reached=_reached(commits, n),
            ),
            controller=number,
        )
        for number, part in enumerate(parts)
        for n in sorted({e.attempt for e in part if e.attempt > 0})
    )  # fmt: skip
    unstarted = sum(not any(True for _ in of_kind(mine, RunStarted)) for mine in controllers)
    finished_at, finished = next(((e.at, said) for e, said in of_kind(last, RunFinished)), (None, None))
    stopped_at = None if finished else next((e.at for e, _ in kinds.all(TrialStopped)), None)
    return Run(
        job=events[0].job,
        name=events[0].run,
        plan=_plan(started) if started else None,
        finished_at=finished_at or stopped_at,
        stopped=stopped_at is not None,
        error=finished.error or None if finished else None,
        progress_key=key,
        progress_repeats=repeats,
        stride=_stride(attempts),
        attempts=attempts,
        checkpoints=_with_states(checkpoints, attempts),
        given=states_given(kinds),
        perhaps_committed=perhaps,
        patches=started.patches if started else None,
        missing=(*_missing(events), *["a controller has not recorded its start"] * unstarted),
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


def _reached(commits: Iterable[tuple[int, Number | None]], n: int) -> Number | None:
    """Return the progress of the newest checkpoint before attempt `n`."""
    return max((p for attempt, p in commits if attempt < n and p is not None), default=None)


def _with_states(
    checkpoints: Iterable[CommittedCheckpoint], attempts: Iterable[RunAttempt]
) -> tuple[CommittedCheckpoint, ...]:
    """Return the checkpoints with the states that were handed over with them."""
    handed: dict[tuple[int, int], dict[int, State]] = {}
    for attempt in attempts:
        for rank, states in attempt.handed.items():
            for state in states:
                handed.setdefault((attempt.number, state.report), {})[rank] = state
    return tuple(replace(c, states=handed.get((c.attempt, c.report), {})) for c in checkpoints)


def _counted_by_itself(reports: Sequence[tuple[Event, Reported]]) -> str | None:
    """Return what the recorder has counted, for a script that does not say how far it is."""
    for key in (ROUND, COUNTED):
        values = [progress_of(said, key) for _, said in reports]
        if values and any(values) and None not in values:
            return key
    return None


def _counted_through(checkpoints: Iterable[CommittedCheckpoint]) -> tuple[CommittedCheckpoint, ...]:
    """Count the steps of each checkpoint on from the one that its attempt began with: a process counts
    from 1."""
    made: list[CommittedCheckpoint] = []
    for c in checkpoints:
        more = _behind(made, c.attempt)
        made.append(c if c.progress is None else replace(c, progress=c.progress + more))
    return tuple(made)


def _behind(checkpoints: Sequence[CommittedCheckpoint], n: int) -> Number:
    """Return the progress of the newest checkpoint before attempt `n`; 0 where there is none."""
    before = (c.progress for c in reversed(checkpoints) if c.attempt < n)
    return next((progress for progress in before if progress is not None), 0)


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
        best_by=(started.checkpoint_score_attribute or "") if isinstance(kept, int) else "",
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
