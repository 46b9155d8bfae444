"""An object store in memory."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from lab.errors import StoreError
from lab.store.base import PIECE, MissingObjectError, Store, StoredObject
from lab.topology import BUCKET


@lru_cache(maxsize=1000)
def stored(key: str, data: bytes, modified: float) -> StoredObject:
    """The object as a list shows it; whoever follows a job lists the same ones hundreds of times."""
    return StoredObject(key, len(data), modified, hashlib.md5(data, usedforsecurity=False).hexdigest())


class FakeObjectStore(Store):
    """An object store in memory, for tests."""

    def __init__(self, bucket: str = BUCKET, *, clock: Callable[[], float] = time.time) -> None:
        """Has `bucket`, empty. `clock` gives the objects their times."""
        self.bucket = bucket
        self.buckets: dict[str, dict[str, tuple[bytes, float]]] = {bucket: {}}
        self.failure: StoreError | None = None
        """Raised by every call while it is set."""
        self.reads: list[str] = []
        """The keys that were read, in order."""
        self._clock = clock

    def in_bucket(self, name: str) -> FakeObjectStore:
        other = FakeObjectStore(name, clock=self._clock)
        other.buckets, other.failure, other.reads = self.buckets, self.failure, self.reads
        return other

    def ensure_bucket(self, name: str = "") -> bool:
        self._check()
        made = (name or self.bucket) not in self.buckets
        self.buckets.setdefault(name or self.bucket, {})
        return made

    def put(self, key: str, data: bytes) -> None:
        self._objects()[key] = (data, self._clock())

    def read(self, key: str) -> Iterator[bytes]:
        objects = self._objects()
        if key not in objects:
            raise MissingObjectError(f"s3://{self.bucket}/{key} is not in the object store")
        self.reads.append(key)
        data = objects[key][0]
        yield from (data[i : i + PIECE] for i in range(0, len(data), PIECE))

    def list(self, prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
        objects: dict[str, StoredObject] = {}
        for key, (data, modified) in self._objects().items():
            if not key.startswith(prefix):
                continue
            if recursive or "/" not in key[len(prefix) :]:
                objects[key] = stored(key, data, modified)
            else:
                folder = prefix + key[len(prefix) :].partition("/")[0] + "/"
                objects[folder] = StoredObject(folder, 0, 0.0, "")
        return tuple(objects[key] for key in sorted(objects))

    def exists(self, key: str) -> bool:
        return key in self._objects()

    def delete(self, keys: Iterable[str]) -> None:
        objects = self._objects()
        for key in keys:
            objects.pop(key, None)

    def ping(self) -> str:
        self._check()
        return "fake"

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _objects(self) -> dict[str, tuple[bytes, float]]:
        self._check()
        if self.bucket not in self.buckets:
            raise StoreError(f"the object store has no bucket {self.bucket!r}", "labctl up makes it")
        return self.buckets[self.bucket]
