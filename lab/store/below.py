"""A folder of a bucket as a store of its own, such as the place that a cluster was told to write to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lab.store.base import Store, StoredObject


class StoreBelow(Store):
    """Objects whose keys begin with a folder's path; they are named without it."""

    def __init__(self, store: Store, folder: str) -> None:
        """`folder` is a path in the bucket, such as `team/ray`; empty for the whole bucket."""
        self._store, self.bucket = store, store.bucket
        self._prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""

    def ensure_bucket(self, name: str = "") -> bool:
        return self._store.ensure_bucket(name)

    def in_bucket(self, name: str) -> Store:
        """The whole of another bucket, or of this one: addresses of checkpoints have the full path."""
        return self._store.in_bucket(name)

    def put(self, key: str, data: bytes) -> None:
        self._store.put(self._prefix + key, data)

    def read(self, key: str) -> Iterator[bytes]:
        return self._store.read(self._prefix + key)

    def list(self, prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
        entries = self._store.list(self._prefix + prefix, recursive)
        return tuple(replace(entry, key=entry.key.removeprefix(self._prefix)) for entry in entries)

    def exists(self, key: str) -> bool:
        return self._store.exists(self._prefix + key)

    def delete(self, keys: Iterable[str]) -> None:
        self._store.delete(self._prefix + key for key in keys)

    def ping(self) -> str:
        return self._store.ping()
