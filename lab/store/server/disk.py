"""The objects of the stand-in S3 server as files: what it has acknowledged survives any end of it.

That of the machine, too: a file is flushed to the disk before it gets its name, and `settle` flushes names.

    ROOT/store.json                     marks the folder as a store; the running server holds a lock on it
    ROOT/tmp/                           unfinished writes; emptied at every start
    ROOT/buckets/BUCKET/bucket.json     the bucket's record; without it the folder is no bucket
    ROOT/buckets/BUCKET/SHA256.object   one object: a line of JSON with its record, then its data

The SHA-256 is that of the key, so that any key makes a safe file name. A file gets its name by one rename
after all of it was written, so it is whole or it is not there.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from lab.errors import RefusedError, StoreError
from lab.host.files import take_lock
from lab.host.reading import parse_json

LAYOUT = 1
"""Version of the layout above; a store written in another one is refused, not guessed at."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


Aside = Callable[[], contextlib.AbstractContextManager[object]]
"""Makes a context in which a wait does not keep others waiting."""


class StorageError(Exception):
    """The disk did not take a change; nothing of it is kept."""

    def __init__(self, error: OSError) -> None:
        full = error.errno in FULL
        super().__init__(f"{'the disk is full' if full else 'the disk cannot be written'}: {error.strerror}")


@dataclass(frozen=True)
class ObjectRecord:
    """The record of an object: all that is known of it but its data."""

    key: str
    size: int
    """Bytes of data."""
    etag: str
    """Without quotes."""
    modified: str
    """ISO 8601, UTC, no offset."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Headers to give back, `content-type` among them."""
    storage_class: str = "STANDARD"
    checksum_algorithm: str | None = None
    checksum_value: str | None = None


@dataclass(frozen=True)
class DiskObject:
    """An object on the disk: its data are `record.size` bytes of `path` from `offset` on."""

    record: ObjectRecord
    path: Path
    offset: int

    def open(self) -> IO[bytes]:
        """The file, placed at the first byte of the data. Raises OSError."""
        stream = self.path.open("rb")
        stream.seek(self.offset)
        return stream


@dataclass(frozen=True)
class BucketRecord:
    """The record of a bucket. `created` is ISO 8601 with offset."""

    name: str
    region: str
    created: str


class Disk:
    """The store below one folder. Not thread-safe, but for what says so: one change at a time."""

    def __init__(
        self, root: Path, log: Callable[[str], None], fsync: Callable[[int], None] = os.fsync
    ) -> None:
        """Makes `root` a store if it is empty or new, and removes what a crash left half-written.

        `fsync` has a file or folder on the disk, by its descriptor, before it returns; it raises OSError.

        Raises RefusedError when the folder holds something else or another server uses it, StoreError when
        it cannot be written.
        """
        self.root, self._log, self._fsync = root, log, fsync
        self._buckets, self._tmp = root / "buckets", root / "tmp"
        self._written = 0
        marker = root / "store.json"
        try:
            root.mkdir(parents=True, exist_ok=True)
            if not marker.exists() and any(root.iterdir()):
                raise RefusedError(
                    f"{root} is neither empty nor an object store", "give the store a folder of its own"
                )
            self._lock = take_lock(marker)
            _check_layout(marker)
            shutil.rmtree(self._tmp, ignore_errors=True)
            self._tmp.mkdir(exist_ok=True)
            self._buckets.mkdir(exist_ok=True)
            if not marker.read_bytes():
                marker.write_text(json.dumps({"layout": LAYOUT}))
            self._flush(root)
            with contextlib.suppress(PermissionError):
                self._flush(root.parent)
        except BlockingIOError:
            raise RefusedError(
                f"another server uses the object store in {root}", "stop that server first"
            ) from None
        except OSError as error:
            raise StoreError(
                f"the object store cannot use {root}: {error.strerror}",
                "free some space there, or make it writable",
            ) from error

    @property
    def tmp(self) -> Path:
        """A folder for unfinished uploads, on the same disk."""
        return self._tmp

    def close(self) -> None:
        """Lets another server use the folder."""
        self._lock.close()

    def buckets(self) -> Iterator[BucketRecord]:
        """Every bucket; half-made and half-removed ones are cleaned up on the way."""
        for folder in sorted(self._buckets.iterdir()):
            try:
                yield BucketRecord(**parse_json((folder / "bucket.json").read_bytes()))
            except (OSError, ValueError, TypeError) as error:
                if any(folder.glob("*.object")):
                    self._log(f"bucket {folder.name} has no readable record and is left out: {error}")
                else:
                    shutil.rmtree(folder, ignore_errors=True)

    def objects(self, bucket: str) -> Iterator[DiskObject]:
        """Every whole object. Half-written ones are removed, unreadable ones left out; both are logged."""
        with os.scandir(self._buckets / bucket) as entries:
            paths = sorted(Path(e.path) for e in entries if e.name.endswith(".object"))
        for path in paths:
            try:
                stored = _read(path)
            except (ValueError, TypeError) as error:
                self._log(f"left out {path.name} of bucket {bucket}: its header cannot be read ({error})")
                continue
            if stored is None:
                self._log(f"removed {path.name} of bucket {bucket}: it was only half-written")
                path.unlink(missing_ok=True)
            else:
                yield stored

    def load(self, bucket: str, key: str) -> DiskObject | None:
        """One object, or None when it is not there."""
        with contextlib.suppress(ValueError, TypeError):
            return _read(self._path(bucket, key))
        return None

    def create_bucket(self, record: BucketRecord) -> None:
        """Make a bucket, with its record and its folder. Raises StorageError."""
        try:
            folder = self._buckets / record.name
            folder.mkdir(exist_ok=True)
            self._write(folder / "bucket.json", json.dumps(vars(record)).encode(), ())
            self._flush(folder)
            self._flush(self._buckets)
        except OSError as error:
            raise StorageError(error) from error

    def delete_bucket(self, name: str) -> None:
        """Delete a bucket: it is gone with its record, and its folder follows. Raises StorageError."""
        try:
            (self._buckets / name / "bucket.json").unlink(missing_ok=True)
            self.settle(name)
        except OSError as error:
            raise StorageError(error) from error
        shutil.rmtree(self._buckets / name, ignore_errors=True)

    def write(
        self, bucket: str, record: ObjectRecord, data: Iterable[bytes], aside: Aside = contextlib.nullcontext
    ) -> DiskObject:
        """Stores an object in place of what had its key before; `data` comes in pieces, `record.size` in all.

        The wait for the disk is spent within `aside()`: meanwhile nobody may change this object.

        Raises StorageError, and then what was there stays.
        """
        header = json.dumps(vars(record), separators=(",", ":")).encode() + b"\n"
        path = self._path(bucket, record.key)
        try:
            self._write(path, header, data, aside)
        except OSError as error:
            raise StorageError(error) from error
        return DiskObject(record, path, len(header))

    def settle(self, bucket: str) -> None:
        """Flushes which objects the bucket has: until then a written or deleted one may come or be back.

        Threads may call it beside one another, and beside a change. Raises StorageError.
        """
        try:
            self._flush(self._buckets / bucket)
        except FileNotFoundError:  # the bucket went meanwhile
            return
        except OSError as error:
            raise StorageError(error) from error

    def delete(self, bucket: str, key: str) -> bool:
        """Removes an object if it is there, and says so. Raises StorageError, and then it stays."""
        try:
            self._path(bucket, key).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError(error) from error
        return True

    def _flush(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            self._fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, bucket: str, key: str) -> Path:
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return self._buckets / bucket / f"{digest}.object"

    def _write(
        self, path: Path, header: bytes, data: Iterable[bytes], aside: Aside = contextlib.nullcontext
    ) -> None:
        self._written += 1
        unfinished = self._tmp / f"{self._written}.part"
        try:
            with unfinished.open("wb") as stream:
                stream.write(header)
                stream.writelines(data)
                stream.flush()
                with aside():
                    self._fsync(stream.fileno())
            unfinished.replace(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


class DiskBuffer(io.RawIOBase):
    """An object's data as the file that moto expects, opened only while it is read."""

    def __init__(self, stored: DiskObject) -> None:
        super().__init__()
        self.stored = stored
        self.muted = False
        """While true there is nothing to read: for a caller who only wants the headers."""
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.stored.record.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.stored.record.size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        if self.muted or not wanted:
            return b""
        with self.stored.open() as stream:
            stream.seek(self._position, io.SEEK_CUR)
            data = stream.read(wanted)
        self._position += len(data)
        return data


def _read(path: Path) -> DiskObject | None:
    """The object in a file; None when there is none, or not all of it. Raises ValueError, TypeError."""
    try:
        with path.open("rb") as stream:
            header = stream.readline()
            if not header.endswith(b"\n"):
                return None
            record = ObjectRecord(**parse_json(header))
            whole = os.fstat(stream.fileno()).st_size == len(header) + record.size
    except FileNotFoundError:
        return None
    return DiskObject(record, path, len(header)) if whole else None


def _check_layout(marker: Path) -> None:
    text = marker.read_bytes()
    try:
        layout: object = parse_json(text)["layout"] if text else LAYOUT
    except (ValueError, KeyError, TypeError):
        layout = "unreadable"
    if layout != LAYOUT:
        raise RefusedError(
            f"{marker.parent} holds an object store of layout {layout}, this version knows only {LAYOUT}",
            "use the version that wrote it, or give the store another folder",
        )
