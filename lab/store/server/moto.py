"""moto's S3 models over the files of `disk`: with `listing` what knows moto's inside (pinned: 5.2.5).

moto holds the list of what there is, in memory; the data stay in the files. What the disk refuses is undone
in moto, from the disk.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from werkzeug.routing import BaseConverter, Map
from werkzeug.wrappers import Response

from lab.host.serving import App, Environ
from lab.store.server import listing
from lab.store.server.disk import (
    Aside,
    BucketRecord,
    Disk,
    DiskBuffer,
    DiskObject,
    ObjectRecord,
    StorageError,
)

if TYPE_CHECKING:
    from moto.s3.models import FakeBucket, FakeKey, FakeMultipart, S3Backend

VERSION = version("moto")

PART_MEMORY = 1 << 20
"""Bytes of one part of an unfinished upload that stay in memory; larger parts go to a temporary file."""

PIECE = 1 << 20


class MotoStore:
    """moto's S3. Not thread-safe, and one per process: moto's state is global."""

    def __init__(self, disk: Disk, aside: Aside = contextlib.nullcontext) -> None:
        """Starts with what `disk` holds; within `aside()` it waits for the disk.

        Meanwhile it may be asked, but not about the object that is saved: its data cannot be read yet.
        """
        self._disk, self._aside = disk, aside
        self._backend, self._app = _fresh_moto()
        for record in disk.buckets():
            bucket = self._backend.create_bucket(record.name, record.region)
            bucket.creation_date = datetime.fromisoformat(record.created)
            for stored in disk.objects(record.name):
                self._restore(bucket, stored)
        _forget_models()

    def ask(self, environ: Environ) -> Response:
        """moto's whole answer to one request, which it takes for authorised."""
        return Response.from_app(self._app, environ, buffered=True)

    def find(self, bucket: str, key: str) -> DiskBuffer | None:
        """The data of an object, or None when it is not there."""
        held = self._backend.buckets.get(bucket)
        known = held.keys.get(key) if held is not None else None
        return None if known is None else known._value_buffer

    def etag(self, bucket: str, key: str) -> str:
        """An object's ETag without quotation marks; empty where there is no such object."""
        held = self._backend.buckets.get(bucket)
        known = held.keys.get(key) if held is not None else None
        return "" if known is None else str(known.etag).strip('"')

    def size(self) -> tuple[int, int]:
        """The number of objects, and the bytes of all of them."""
        sizes = [key.contentsize for bucket in self._backend.buckets.values() for key in bucket.keys.values()]
        return len(sizes), sum(sizes)

    def has_upload(self, bucket: str, key: str, upload: str) -> bool:
        """True if an upload of this key in parts has begun and is neither complete nor aborted."""
        held = self._backend.buckets.get(bucket)
        begun = held.multiparts.get(upload) if held is not None else None
        return begun is not None and begun.key_name == key

    def completed(self, bucket: str, key: str, upload: str) -> bool:
        """True if the object was made of this upload, since this process runs."""
        held = self._backend.buckets.get(bucket)
        known = held.keys.get(key) if held is not None else None
        return known is not None and known.multipart is not None and known.multipart.id == upload

    def save(self, name: str, key: str, *, everything: bool) -> bool:
        """Bring the disk to what moto holds: of one key, of all deleted keys of a bucket, or of the bucket.

        Says if the bucket's objects on the disk have changed, which `Disk.settle` then makes last. Raises
        StorageError; then moto is brought back to what the disk holds.
        """
        changed, bucket = False, self._backend.buckets.get(name)
        if bucket is None:
            self._disk.delete_bucket(name)
        elif key:
            changed = self._save_key(bucket, key)
        elif everything:
            failures = []
            for removed in sorted(bucket.keys.removed):
                try:
                    changed |= self._save_key(bucket, removed)
                except StorageError as error:
                    failures.append(error)
            if failures:
                raise failures[0]
        else:
            try:
                self._disk.create_bucket(
                    BucketRecord(name, bucket.region_name, bucket.creation_date.isoformat())
                )
            except StorageError:
                if not bucket.keys:
                    self._backend.delete_bucket(name)
                raise
        _forget_models()
        return changed

    def _save_key(self, bucket: FakeBucket, name: str) -> bool:
        bucket.keys.removed.discard(name)
        key = bucket.keys.get(name)
        if key is not None and isinstance(key._value_buffer, DiskBuffer):
            return False
        try:
            if key is None:
                return self._disk.delete(bucket.name, name)
            size, data = _contents(key)
            key.contentsize = size
            stored = self._disk.write(bucket.name, _record(key, size), data, self._aside)
        except StorageError:
            self._undo(bucket, name, key)
            raise
        key._value_buffer.close()
        key._value_buffer = DiskBuffer(stored)
        if _is_new_upload(key):  # the upload stays known by its id: completing it twice is no error
            for part in key.multipart.completed.values():
                part.dispose()
            key.multipart.completed = {}
        return True

    def _undo(self, bucket: FakeBucket, name: str, key: FakeKey | None) -> None:
        """An upload whose object could not be stored can be completed again."""
        if key is not None:
            if _is_new_upload(key):
                key.multipart.parts, key.multipart.completed = key.multipart.completed, {}
                bucket.multiparts[key.multipart.id] = key.multipart
            key.multipart = None
            bucket.keys.pop(name)
        stored = self._disk.load(bucket.name, name)
        if stored is not None:
            self._restore(bucket, stored)

    def _restore(self, bucket: FakeBucket, stored: DiskObject) -> None:
        from moto.s3.models import FakeKey

        record = stored.record
        key = FakeKey(
            record.key,
            b"",
            account_id=bucket.account_id,
            region_name=bucket.region_name,
            storage=record.storage_class,
            etag=record.etag,
            version_id="null",
            bucket_name=bucket.name,
            checksum_value=record.checksum_value,
        )
        key.checksum_algorithm = record.checksum_algorithm
        key.last_modified = datetime.fromisoformat(record.modified)
        key.set_metadata(dict(record.metadata))
        key._value_buffer.close()
        key._value_buffer = DiskBuffer(stored)
        key.contentsize = record.size
        bucket.keys.setlist(record.key, [key])


def _fresh_moto() -> tuple[S3Backend, App]:
    """moto's S3 backend, empty, and its WSGI application, for S3 alone."""
    os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.moto_server import werkzeug_app
    from moto.s3 import models
    from moto.s3.models import FakeKey, FakeMultipart, s3_backends

    listing.install(models)
    s3_backends.reset()
    s3_backends.bucket_accounts.clear()
    werkzeug_app.RegexConverter = _AnyText
    FakeMultipart.complete = _complete
    FakeKey.value = property(FakeKey.value.fget, _hold)
    app = werkzeug_app.create_backend_app("s3")
    app.url_map.merge_slashes = False
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    backend._pagination_tokens = listing.Tokens()
    return backend, app


class _AnyText(BaseConverter):
    """A converter of moto's routes for which a key may have line feeds, too."""

    part_isolating = False

    def __init__(self, url_map: Map, pattern: str) -> None:
        super().__init__(url_map)
        self.regex = f"(?s:{pattern})"


def _hold(self: FakeKey, data: bytes) -> None:
    """moto's FakeKey.value for an object's data as they are: `save` writes them to the disk at once.

    Only a part of an upload, whose name is its number, may have to wait for long: a large one goes to a file.
    """
    self._value_buffer.close()
    if isinstance(self.name, int):
        self._value_buffer = tempfile.SpooledTemporaryFile(PART_MEMORY)  # noqa: SIM115 - the part owns it
        self._value_buffer.write(data)
    else:
        self._value_buffer = io.BytesIO(data)
    self.contentsize = len(data)


def _complete(self: FakeMultipart, body: Iterator[tuple[int, str]]) -> tuple[bytes, str, None]:
    """moto's FakeMultipart.complete without the data, of which that makes several copies in memory."""
    from moto.s3.exceptions import EntityTooSmall, InvalidPart, InvalidPartOrder, MalformedXML
    from moto.settings import S3_UPLOAD_PART_MIN_SIZE
    from moto.utilities.utils import md5_hash

    digest = md5_hash()
    completed: dict[int, FakeKey] = {}
    last: FakeKey | None = None
    parts = list(body)
    if any(number <= before for (before, _), (number, _) in itertools.pairwise(parts)):
        raise InvalidPartOrder()
    for number, etag in parts:
        part = self.parts.get(number)
        if part is None or part.etag.strip('"') != etag.strip('"'):
            raise InvalidPart()
        if last is not None and last.contentsize < S3_UPLOAD_PART_MIN_SIZE:
            raise EntityTooSmall()
        digest.update(bytes.fromhex(part.etag.strip('"')))
        completed[number] = last = part
    if not completed:
        raise MalformedXML()
    self.completed = completed
    self.parts = {number: part for number, part in self.parts.items() if number not in completed}
    return b"", f"{digest.hexdigest()}-{len(completed)}", None


def _contents(key: FakeKey) -> tuple[int, Iterator[bytes]]:
    """Size and data of an object that moto just made: its own, or those of the parts it was made of."""
    parts = [key]
    if _is_new_upload(key):
        parts = list(key.multipart.completed.values())
    return sum(part.contentsize for part in parts), _pieces(parts)


def _is_new_upload(key: FakeKey) -> bool:
    """True if an object's data are still the parts it was uploaded in."""
    return bool(getattr(key.multipart, "completed", None))


def _pieces(parts: list[FakeKey]) -> Iterator[bytes]:
    for part in parts:
        part._value_buffer.seek(0)
        while piece := part._value_buffer.read(PIECE):
            yield piece


def _record(key: FakeKey, size: int) -> ObjectRecord:
    return ObjectRecord(
        key=key.name,
        size=size,
        etag=key.etag.strip('"'),
        modified=key.last_modified.isoformat(),
        metadata={str(name): str(value) for name, value in key.metadata.items()},
        storage_class=key.storage_class or "STANDARD",
        checksum_algorithm=key.checksum_algorithm,
        checksum_value=key.checksum_value,
    )


def _forget_models() -> None:
    """moto remembers every model it ever made, for its own test fixtures; that would be a leak here."""
    from moto.s3 import models

    kinds = (models.FakeKey, models.FakeMultipart, models.FakeBucket, models.FakeAcl)
    for kind in kinds:
        kind.instances_tracked.clear()
