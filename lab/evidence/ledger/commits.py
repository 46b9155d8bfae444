"""Finds the checkpoints that Ray Train committed. A path may be written again: each commit is its own.

Ranks save by their clocks, and the controller commits by its own. So what belongs together is found by order:
the n-th commit of a path in an attempt is of the n-th save of it by each rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lab.evidence.ledger.events import Event
from lab.evidence.ledger.fields import files_of, progress_of, text
from lab.evidence.ledger.model import CommittedCheckpoint

Saves = Mapping[tuple[int, str], Mapping[int, Sequence[Event]]]
"""Attempt and URI -> rank -> its `checkpoint_saved`, in order."""


def committed(events: Sequence[Event], key: str | None) -> tuple[CommittedCheckpoint, ...]:
    """Return the checkpoints in the order of their commits; `key` is the metric of their progress."""
    saves, count = _saves(events), Counter[tuple[int, str]]()
    checkpoints = []
    for commit in _commits(events, saves):
        place = commit.attempt, commit.fields["uri"]
        parts = [mine[count[place]] for mine in saves.get(place, {}).values() if count[place] < len(mine)]
        count[place] += 1
        checkpoints.append(_checkpoint(commit, parts, key))
    return tuple(checkpoints)


def perhaps_committed(events: Iterable[Event]) -> frozenset[tuple[int, str]]:
    """Return attempt and URI of each checkpoint that was saved and whose commit is not recorded, where the
    record of the controller breaks off: the commit may have been its last act."""
    history = list(events)
    ended = {e.attempt for e in history if e.event == "attempt_ended"}
    commits = Counter((e.attempt, e.fields.get("uri")) for e in history if e.event == "checkpoint_committed")
    return frozenset(
        (attempt, uri)
        for (attempt, uri), by_rank in _saves(history).items()
        if attempt not in ended and max(map(len, by_rank.values())) > commits[attempt, uri]
    )


def _checkpoint(commit: Event, saved: Sequence[Event], key: str | None) -> CommittedCheckpoint:
    progress = (progress_of(e.fields, key) for e in (commit, *sorted(saved, key=lambda e: e.rank or 0)))
    manifests = {e.rank: files_of(e.fields.get("files")) for e in saved if e.rank is not None}
    files: dict[str, set[str]] = {}
    for manifest in manifests.values():
        for path, sha256 in (manifest or {}).items():
            files.setdefault(path, set()).add(sha256)
    known = bool(manifests) and all(m is not None for m in manifests.values())
    return CommittedCheckpoint(
        uri=commit.fields["uri"],
        at=commit.at,
        attempt=commit.attempt,
        progress=next((p for p in progress if p is not None), None),
        files={path: frozenset(sha256s) for path, sha256s in files.items()} if known else None,
        saved_by=frozenset(rank for rank, manifest in manifests.items() if manifest is not None),
    )


def _saves(events: Iterable[Event]) -> Saves:
    saves: dict[tuple[int, str], dict[int, list[Event]]] = {}
    for event in events:
        uri = text(event.fields.get("uri"))
        if event.event == "checkpoint_saved" and uri is not None and event.rank is not None:
            saves.setdefault((event.attempt, uri), {}).setdefault(event.rank, []).append(event)
    return saves


def _commits(events: Sequence[Event], saves: Saves) -> tuple[Event, ...]:
    """Return the events that tell of a commit, attempt by attempt.

    A controller that is killed right after a commit has not recorded this last one. Then it is known from
    what came after: Ray gave the checkpoint to a later attempt.
    """
    named = [e for e in events if text(e.fields.get("uri")) is not None]
    commits = [e for e in named if e.event == "checkpoint_committed"]
    perhaps = set(perhaps_committed(events))
    for event in (e for e in named if e.event == "get_checkpoint"):
        uri = event.fields["uri"]
        made = [e.attempt for e in commits if e.fields["uri"] == uri and e.attempt < event.attempt]
        unsure = [n for n, other in perhaps if other == uri and max(made, default=0) <= n < event.attempt]
        if unsure:
            place = max(unsure), uri
            perhaps.remove(place)
            last = [mine[-1] for mine in saves[place].values()]
            commits.append(replace(min(last, key=lambda e: e.rank or 0), at=event.at))
    return tuple(sorted(commits, key=lambda e: e.attempt))
