"""The interface to an object store, and its errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lab.errors import StoreError, UsageError

PIECE = 1 << 20
"""Bytes of an object read at once."""

LOG_HINT = "see the store's log: labctl logs minio"


class MissingObjectError(StoreError):
    """The object asked for is not there."""


class UnreachableStoreError(StoreError):
    """Nothing answers at the store's address, or the server there is not ready yet."""


class AccessDeniedError(StoreError):
    """The store knows the key, and does not let it do this."""


class NoAdminApiError(StoreError):
    """The store does not know MinIO's admin API, or answers it in S3's words."""


@dataclass(frozen=True)
class StoredObject:
    """One entry of a listing. In one that is not recursive, a key that ends with `/` can be a folder."""

    key: str
    size: int
    """Bytes; 0 for a folder."""
    modified: float
    """Seconds since the epoch; 0 for a folder."""
    etag: str
    """Without quotes; empty for a folder."""


class Store(ABC):
    """One bucket of an object store. All methods raise StoreError."""

    bucket: str

    @abstractmethod
    def ensure_bucket(self, name: str = "") -> bool:
        """Make the bucket (this store's own unless named) if it is missing; returns whether it was."""

    @abstractmethod
    def in_bucket(self, name: str) -> Store:
        """The same store, for another bucket."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Store an object; it replaces one of the same key."""

    @abstractmethod
    def read(self, key: str) -> Iterator[bytes]:
        """An object's data in pieces. Raises MissingObjectError when it is not there."""

    @abstractmethod
    def list(self, prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
        """The objects whose keys begin with `prefix`, by key; if not `recursive`, folders stay closed."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """True if there is an object with exactly this key."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are not there are no error."""

    @abstractmethod
    def ping(self) -> str:
        """Try the key; returns the name that the server gives itself, such as `moto 5.2.5` or `MinIO`."""

    def get(self, key: str) -> bytes:
        """An object's data. Raises MissingObjectError when it is not there."""
        return b"".join(self.read(key))

    def delete_prefix(self, prefix: str) -> int:
        """Remove every object whose key begins with `prefix`; returns how many there were.

        Raises UsageError for an empty prefix.
        """
        if not prefix:
            raise UsageError("refusing to delete every object of a bucket", "name a prefix")
        keys = [entry.key for entry in self.list(prefix)]
        self.delete(keys)
        return len(keys)
