"""Faults of the newest checkpoint: it is damaged, and a rank is ended so that one is loaded.

The rank that saves checkpoints is frozen first: else it could save another one meanwhile, and training would
resume from that. What is damaged is copied beforehand to another place in the store, where the revert of
another labctl finds it too.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from lab.api.ledger import CheckpointRefused
from lab.cluster.checkpoints import JobLedger
from lab.errors import LabError, RefusedError, ServiceError
from lab.evidence.ledger import of_kind
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits
from lab.faults.kinds._probe import signal, tell_if_up
from lab.store.base import MissingObjectError, Store, StoredObject
from lab.topology import Struck

KEPT_PREFIX = ".raylab/kept"
"""Folder of the bucket in which the copies lie while the fault lasts."""

MAX_BYTES = 2 * 1024**3
"""Largest checkpoint that is copied: it passes through labctl's memory file by file."""

QUIET_SECONDS = 1.0
"""Time that Ray Train gets to register a checkpoint that was saved before the rank was frozen."""


class CheckpointFault(Fault):
    """A fault of the newest checkpoint."""

    patience = 60.0

    def inject(self, scene: Scene) -> Struck | None:
        """Damage the checkpoint, and end the rank; the fault's time is that of the rank's end.

        Raises RefusedError when there is nothing to damage, or it is too large.
        """
        store = _store(scene)
        saver = min(scene.ranks, key=lambda rank: rank.rank, default=None)
        if saver is None:
            raise RefusedError(f"job {scene.job} has no training process now", "wait until it trains")
        at_saver = replace(scene, target=saver.service)
        scene.note(rank=[saver.service, saver.pid])
        try:
            signal(at_saver, "hang", saver.pid)
            self.clock.sleep(QUIET_SECONDS)
            uri = newest(store, scene)
            bucket, prefix = split(uri)
            holder = store.in_bucket(bucket)
            entries = [entry for entry in holder.list(prefix) if not entry.key.endswith("/")]
            hit = self.choose(entries)
            if not hit:
                raise RefusedError(f"{uri} has no file that could be damaged", "wait for another checkpoint")
            if sum(entry.size for entry in hit) > MAX_BYTES:
                raise RefusedError(
                    f"{uri} is larger than {MAX_BYTES >> 30} GiB and would not be copied",
                    "choose a training with smaller checkpoints",
                )
            kept = f"{KEPT_PREFIX}/{scene.job}/{prefix.rstrip('/').rsplit('/', 1)[-1]}"
            becomes = {
                entry.key: self._keep(store, f"{kept}/{n}", holder, entry) for n, entry in enumerate(hit)
            }
            sums = [_sum(data) for data in becomes.values()]
            scene.note(damaged=[uri], bucket=bucket, kept=kept, keys=[*becomes], becomes=sums)
            for key, data in becomes.items():
                _write(holder, key, data)
            struck = signal(at_saver, "kill", saver.pid)
        except BaseException:
            with contextlib.suppress(LabError):  # the revert tries it again, and says what is wrong
                _thaw(scene)
            raise
        del scene.memo["rank"]  # it has ended: nothing is left to thaw
        return struck

    def revert(self, scene: Scene) -> None:
        """Put back what was damaged; the rank that was ended stays so."""
        try:
            _thaw(scene)
        finally:
            self._put_back(scene)

    def _keep(self, store: Store, place: str, holder: Store, entry: StoredObject) -> bytes | None:
        """Copy a file to its place; returns what it is to become."""
        data = holder.get(entry.key)
        store.put(place, data)
        return self.damaged(data)

    def _put_back(self, scene: Scene) -> None:
        """Write what was kept where the damage still is: training may have saved another file there since."""
        memo = scene.memo
        if "keys" not in memo:
            return
        store = _store(scene)
        holder = store.in_bucket(memo["bucket"])
        for number, (key, damaged) in enumerate(zip(memo["keys"], memo["becomes"], strict=True)):
            kept = _read(store, f"{memo['kept']}/{number}")
            if kept is not None and _sum(_read(holder, key)) == damaged:
                holder.put(key, kept)
        store.delete_prefix(f"{memo['kept']}/")

    def choose(self, entries: Sequence[StoredObject]) -> Sequence[StoredObject]:
        """Return the files to be damaged: by default the largest, as a rule that with the weights."""
        biggest = max(entries, key=lambda entry: (entry.size, entry.key), default=None)
        return [biggest] if biggest is not None and biggest.size else []

    @abstractmethod
    def damaged(self, data: bytes) -> bytes | None:
        """Return what a file with this content becomes; None: it is deleted."""


def _read(store: Store, key: str) -> bytes | None:
    try:
        return store.get(key)
    except MissingObjectError:
        return None


def _write(store: Store, key: str, data: bytes | None) -> None:
    if data is None:
        store.delete([key])
    else:
        store.put(key, data)


def _sum(data: bytes | None) -> str:
    """Return the SHA-256 of a file; empty for one that is not there."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def newest(store: Store, scene: Scene) -> str:
    """Return the URI of the newest committed checkpoint of the run that trains, by the ledger as it is now.

    One that was refused before is passed over: training would not load it, whatever is done to it.
    """
    known, ledger = set(scene.checkpoints), JobLedger(store, scene.job)
    history = ledger.poll()
    refused = {said.uri for _, said in of_kind(ledger.events, CheckpointRefused)}
    for run in reversed(history.runs):
        uris = [checkpoint.uri for checkpoint in run.checkpoints if checkpoint.uri not in refused]
        if uris and (not known or known & set(uris)):
            return uris[-1]
    raise RefusedError(f"job {scene.job} has no checkpoint yet", "wait for one: --after-epoch 1")


def split(uri: str) -> tuple[str, str]:
    """Return bucket and prefix of a checkpoint's objects. Raises RefusedError for one that is elsewhere."""
    match = re.fullmatch(r"s3://([^/]+)/(.+?)/*", uri)
    if match is None:
        raise RefusedError(
            f"{uri} does not lie in the lab's object store", "choose a job that stores in s3://ray"
        )
    return match[1], f"{match[2]}/"


def _thaw(scene: Scene) -> None:
    """Let the rank go on that saves checkpoints, if it was, or may have been, frozen and not ended."""
    if "rank" in scene.memo:
        service, pid = scene.memo["rank"]
        tell_if_up(replace(scene, target=service), "rank", "thaw", pid)


def _store(scene: Scene) -> Store:
    if scene.store is None:
        raise ServiceError("the object store of the lab is not known", "labctl status")
    return scene.store


BYTES = 64
"""Number of bytes that are inverted, in the middle of the file."""


class CheckpointCorrupt(CheckpointFault):
    """Inverts bytes of the largest file; its size stays."""

    kind = FaultKind(
        name="checkpoint-corrupt",
        summary="64 bytes of the newest checkpoint's largest file are inverted, and a rank is ended",
        scope=Scope.CHECKPOINT,
        revert="the file gets its content back",
        expected=Expected.CHECKPOINT_DAMAGED,
        traits=Traits("had its newest checkpoint corrupted"),
    )

    def damaged(self, data: bytes) -> bytes | None:
        begin = max(0, len(data) // 2 - BYTES // 2)
        middle = bytes(255 - byte for byte in data[begin : begin + BYTES])
        return data[:begin] + middle + data[begin + BYTES :]


class CheckpointDelete(CheckpointFault):
    """Deletes every file of it."""

    kind = FaultKind(
        name="checkpoint-delete",
        summary="every file of the newest checkpoint is deleted, and a rank is ended",
        scope=Scope.CHECKPOINT,
        revert="the files are put back",
        expected=Expected.CHECKPOINT_DAMAGED,
        traits=Traits("lost its newest checkpoint"),
    )

    def choose(self, entries: Sequence[StoredObject]) -> Sequence[StoredObject]:
        return entries

    def damaged(self, data: bytes) -> bytes | None:
        return None


class CheckpointTruncate(CheckpointFault):
    """Leaves the first half of the largest file."""

    kind = FaultKind(
        name="checkpoint-truncate",
        summary="the newest checkpoint's largest file loses its second half, and a rank is ended",
        scope=Scope.CHECKPOINT,
        revert="the file gets its content back",
        expected=Expected.CHECKPOINT_DAMAGED,
        traits=Traits("had its newest checkpoint cut in half"),
    )

    def damaged(self, data: bytes) -> bytes | None:
        return data[: len(data) // 2]
