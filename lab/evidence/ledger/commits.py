"""Finds the checkpoints that Ray Train committed. A path may be written again: each commit is its own.

Ranks save by their clocks, and the controller commits by its own. So what belongs together is found by order:
the n-th commit of a path in an attempt is of the n-th save of it by each rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.api.ledger import (
    AttemptEnded,
    CheckpointCommitted,
    CheckpointGiven,
    CheckpointSaved,
    Reported,
    StateHanded,
    WithMetrics,
)
from lab.evidence.ledger.events import Event, Kinds
from lab.evidence.ledger.model import CommittedCheckpoint, manifest_of, progress_of

Save = tuple[Event, CheckpointSaved | Reported]
Saves = Mapping[tuple[int, str], Mapping[int, Sequence[Save]]]
"""Attempt and URI -> rank -> its saves, in order."""


@dataclass(frozen=True)
class _Commit:
    at: float
    attempt: int
    uri: str
    payload: WithMetrics
    """That of its own event; of a save where there is none."""


def committed(
    kinds: Kinds, saves: Saves, perhaps: Collection[tuple[int, str]], key: str | None
) -> tuple[CommittedCheckpoint, ...]:
    """Return the checkpoints in the order of their commits, of the events of a run.

    `saves` and `perhaps` are its `saves_of` and `perhaps_committed`; `key` is the metric of their progress.
    """
    count = Counter[tuple[int, str]]()
    reported = {(e.attempt, said.report): progress_of(said, key) for e, said in kinds.all(Reported)}
    checkpoints = []
    for commit in _commits(kinds, saves, perhaps):
        place = commit.attempt, commit.uri
        parts = [mine[count[place]] for mine in saves.get(place, {}).values() if count[place] < len(mine)]
        count[place] += 1
        checkpoint = _checkpoint(commit, parts, key)
        if checkpoint.progress is None:  # what the recorder counts stands in reports alone
            checkpoint = replace(checkpoint, progress=reported.get((commit.attempt, checkpoint.report)))
        checkpoints.append(checkpoint)
    return tuple(checkpoints)


def perhaps_committed(kinds: Kinds, saves: Saves) -> frozenset[tuple[int, str]]:
    """Return attempt and URI of each checkpoint that was saved and whose commit is not recorded, where the
    record of the controller breaks off: the commit may have been its last act. So of one that was handed
    over, to be uploaded meanwhile, and whose URI is not known."""
    ended = {e.attempt for e, _ in kinds.all(AttemptEnded)}
    commits = Counter((e.attempt, said.uri) for e, said in kinds.all(CheckpointCommitted))
    saved = {
        (said_by.attempt, said.report)
        for m in saves.values()
        for mine in m.values()
        for said_by, said in mine
    }
    handed = {(e.attempt, said.report) for e, said in kinds.all(Reported) if said.handed}
    handed |= {(e.attempt, said.report) for e, said in kinds.all(StateHanded) if said.handed}
    return frozenset(
        (attempt, uri)
        for (attempt, uri), by_rank in saves.items()
        if attempt not in ended and max(map(len, by_rank.values())) > commits[attempt, uri]
    ) | {(attempt, "") for attempt, number in handed - saved if attempt not in ended}


def _checkpoint(commit: _Commit, saved: Sequence[Save], key: str | None) -> CommittedCheckpoint:
    by_rank = [said for _, said in sorted(saved, key=_rank)]
    progress = (progress_of(said, key) for said in (commit.payload, *by_rank))
    uploads = [(e.rank, said) for e, said in saved if isinstance(said, CheckpointSaved)]
    manifests = {rank: manifest_of(said.files) for rank, said in uploads if rank is not None}
    files: dict[str, set[str]] = {}
    for manifest in manifests.values():
        for path, sha256 in (manifest or {}).items():
            files.setdefault(path, set()).add(sha256)
    known = bool(manifests) and all(m is not None for m in manifests.values())
    return CommittedCheckpoint(
        uri=commit.uri,
        at=commit.at,
        attempt=commit.attempt,
        progress=next((p for p in progress if p is not None), None),
        files={path: frozenset(sha256s) for path, sha256s in files.items()} if known else None,
        saved_by=frozenset(rank for rank, manifest in manifests.items() if manifest is not None),
        report=next((said.report for said in by_rank if said.report), 0),
        sizes=tuple(size for _, said in uploads for size in said.sizes or ()),
    )


def saves_of(kinds: Kinds) -> Saves:
    """Return what ranks saved: uploaded, or, where the script has done that itself, named in their
    reports."""
    saves: dict[tuple[int, str], dict[int, list[Save]]] = {}
    pairs: list[Save] = [*kinds.all(CheckpointSaved)]
    uploaded = {(e.attempt, said.uri) for e, said in kinds.all(CheckpointSaved)}
    named = [(e, said) for e, said in kinds.all(Reported) if (e.attempt, said.checkpoint) not in uploaded]
    for event, said in (*pairs, *named):
        uri = said.uri if isinstance(said, CheckpointSaved) else said.checkpoint
        if uri is not None and event.rank is not None:
            saves.setdefault((event.attempt, uri), {}).setdefault(event.rank, []).append((event, said))
    return saves


def _rank(save: Save) -> int:
    return save[0].rank or 0


def _commits(kinds: Kinds, saves: Saves, perhaps: Collection[tuple[int, str]]) -> tuple[_Commit, ...]:
    """Return the commits, attempt by attempt.

    A controller that is killed right after a commit has not recorded this last one. Then it is known from
    what came after: Ray gave the checkpoint to a later attempt.
    """
    commits = [
        _Commit(e.at, e.attempt, said.uri, said)
        for e, said in kinds.all(CheckpointCommitted)
        if said.uri is not None
    ]
    left = set(perhaps)
    for event, given in kinds.all(CheckpointGiven):
        uri = given.uri
        if uri is None:
            continue
        made = [c.attempt for c in commits if c.uri == uri and c.attempt < event.attempt]
        unsure = [n for n, other in left if other == uri and max(made, default=0) <= n < event.attempt]
        if unsure:
            place = max(unsure), uri
            left.remove(place)
            last = [mine[-1] for mine in saves[place].values()]
            save, said = min(last, key=_rank)
            commits.append(_Commit(event.at, save.attempt, uri, said))
    return tuple(sorted(commits, key=lambda c: c.attempt))
