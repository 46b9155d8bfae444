"""Listings of moto: names in order, pages that count folders, and tokens that outlive the process."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from moto.s3.models import FakeBucket, FakeKey, S3Backend

Page: TypeAlias = "tuple[list[FakeKey], list[str], bool, str | None]"
"""Objects, folders, whether there are more, and the token for these."""

TOKEN = "raylab-"
"""The beginning of every token of a page, which a client may take for a name."""


def install(models: Any) -> None:
    """Change moto's models, once in a process."""
    if hasattr(models._VersionedKeyStore, "page"):
        return
    models._VersionedKeyStore = _sorted(models._VersionedKeyStore)
    models.S3Backend.list_objects = _older
    models.S3Backend.list_objects_v2 = _newer
    models.S3Backend._truncate_result = _truncated


def _sorted(store: Any) -> Any:
    """moto's dict of a bucket's objects, its names in order, and those that `save` has to remove."""

    class Sorted(store):
        def __init__(self) -> None:
            super().__init__()
            self._names: list[str] = []
            self.removed: set[str] = set()

        def __setitem__(self, name: str, value: FakeKey) -> None:
            self._note(name)
            super().__setitem__(name, value)

        def setlist(self, name: str, values: list[FakeKey]) -> None:
            self._note(name)
            super().setlist(name, values)

        def pop(self, name: str) -> None:
            super().pop(name)
            del self._names[bisect.bisect_left(self._names, name)]
            self.removed.add(name)

        def _note(self, name: str) -> None:
            if name not in self:
                bisect.insort(self._names, name)

        def page(self, prefix: str, delimiter: str, after: str, count: int) -> list[FakeKey | str]:
            """At most so many objects and folders behind a name, in order, without a look at other names."""
            entries: list[FakeKey | str] = []
            place = max(bisect.bisect_left(self._names, prefix), bisect.bisect_right(self._names, after))
            while place < len(self._names) and len(entries) < count:
                name = self._names[place]
                if not name.startswith(prefix):
                    break
                inside, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
                if not cut:
                    entries.append(self[name])
                    place += 1
                    continue
                folder = f"{prefix}{inside}{delimiter}"
                if folder > after:
                    entries.append(folder)
                place = bisect.bisect_left(self._names, True, place, key=_is_outside(folder))
            return entries

    return Sorted


def _is_outside(folder: str) -> Callable[[str], bool]:
    return lambda name: not name.startswith(folder)


def _older(
    self: S3Backend,
    bucket: FakeBucket,
    prefix: str | None,
    delimiter: str | None,
    marker: str | None,
    max_keys: int,
) -> Page:
    """The older listing; in it, too, folders count as names, while moto has all of them on each page."""
    after = (self._pagination_tokens.get(marker) or marker) if marker else ""
    names = bucket.keys.page(prefix or "", delimiter or "", after, max_keys + 1)
    page, cut, token = _truncated(self, names, max_keys)
    folders = [entry for entry in page if isinstance(entry, str)]
    return [entry for entry in page if not isinstance(entry, str)], folders, cut, token


def _newer(
    self: S3Backend,
    bucket: FakeBucket,
    prefix: str | None,
    delimiter: str | None,
    continuation_token: str | None,
    start_after: str | None,
    max_keys: int,
) -> tuple[list[FakeKey | str], bool, str | None]:
    """The newer listing, in which a token goes before a name to start after."""
    from moto.s3.exceptions import InvalidContinuationToken

    after = self._pagination_tokens.get(continuation_token) if continuation_token else start_after
    if continuation_token and after is None:
        raise InvalidContinuationToken
    return _truncated(
        self, bucket.keys.page(prefix or "", delimiter or "", after or "", max_keys + 1), max_keys
    )


class Tokens:
    """moto's tokens by which a listing goes on. They hold the last name, so they outlive the process."""

    def get(self, token: str) -> str | None:
        """The last name of the page before, or None for what is no token."""
        if not token.startswith(TOKEN):
            return None
        with contextlib.suppress(ValueError):
            return bytes.fromhex(token.removeprefix(TOKEN)).decode()
        return None


def _truncated(
    self: S3Backend, names: list[FakeKey | str], count: int
) -> tuple[list[FakeKey | str], bool, str | None]:
    """The first names, True if there are more, and the token for these."""
    page = names[:count]
    if not page or len(names) <= count:
        return page, False, None
    last = self._get_name(page[-1])
    return page, True, TOKEN + last.encode().hex()
