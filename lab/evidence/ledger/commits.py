"""Finds the checkpoints that Ray Train committed. A path may be written again: each commit is its own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import inf

from lab.evidence.ledger.events import Event, in_order
from lab.evidence.ledger.fields import files_of, progress_of, text
from lab.evidence.ledger.model import CommittedCheckpoint

Saves = Mapping[str, Sequence[Event]]
"""URI -> `checkpoint_saved` of every rank, by time."""


def committed(events: Sequence[Event], key: str | None) -> tuple[CommittedCheckpoint, ...]:
    """Return the checkpoints in the order of their commits; `key` is the metric of their progress."""
    saves = _saves(events)
    commits = _commits(events, saves)
    times: dict[str, list[float]] = {}
    for commit in commits:
        times.setdefault(commit.fields["uri"], []).append(commit.at)
    parts: dict[tuple[str, float], list[Event]] = {}
    for uri, known in times.items():
        for save in saves.get(uri, ()):  # a save is of the next commit; one after the last is of none
            place = bisect_left(known, save.at)
            if place < len(known):
                parts.setdefault((uri, known[place]), []).append(save)
    return tuple(_checkpoint(c, parts.get((c.fields["uri"], c.at), []), key) for c in commits)


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


def _saves(events: Sequence[Event]) -> Saves:
    saves: dict[str, list[Event]] = {}
    for event in events:
        if event.event == "checkpoint_saved" and (uri := text(event.fields.get("uri"))) is not None:
            saves.setdefault(uri, []).append(event)
    return saves


def _commits(events: Sequence[Event], saves: Saves) -> tuple[Event, ...]:
    """Return the events that tell of a commit, by time.

    A controller that is killed right after a commit has not recorded this last one. Then it is known from
    what came after: Ray gave the checkpoint to an attempt that had not saved it. Of a controller that has
    recorded nothing, or not what came before, nothing is taken for granted.
    """
    recorded = [
        e for e in events
        if e.event == "checkpoint_committed" and text(e.fields.get("uri")) is not None
    ]  # fmt: skip
    known = {e.fields["uri"] for e in recorded}
    last = {(e.job, e.attempt): e.at for e in recorded}
    inferred: list[Event] = []
    for event in events:
        uri = str(event.fields.get("uri"))
        if event.event != "get_checkpoint" or uri in known or uri not in saves:
            continue
        last_save = saves[uri][-1]
        savers = {(e.job, e.attempt) for e in saves[uri]}
        since = max((last[saver] for saver in savers if saver in last), default=inf)
        unrecorded = {other for other, saved in saves.items() if since < saved[-1].at <= last_save.at}
        if unrecorded == {uri} and (event.job, event.attempt) not in savers:
            inferred.append(last_save)
            known.add(uri)
    return in_order((*recorded, *inferred))
