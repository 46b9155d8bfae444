"""Listings of moto: names in order, pages that count folders, and tokens that outlive the process."""

from __future__ import annotations

import bisect
import contextlib
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from moto.s3.models import FakeBucket, FakeKey, S3Backend

Page: TypeAlias = "tuple[list[FakeKey], list[str], bool, str | None]"
"""Objects, folders, whether there are more, and the token for these."""

TOKEN = "raylab-"
"""The beginning of every token of a page, which a client may take for a name."""


def install(models: Any) -> None:
    """Change moto's models, once in a process."""
    if hasattr(models._VersionedKeyStore, "beginning_with"):
        return
    models._VersionedKeyStore = _sorted(models._VersionedKeyStore)
    models.S3Backend.list_objects = _listed(models.S3Backend.list_objects)
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

        def beginning_with(self, prefix: str) -> dict[str, FakeKey]:
            """Name -> object, without a look at other names than these."""
            first = bisect.bisect_left(self._names, prefix)
            last = bisect.bisect_left(self._names, True, first, key=lambda name: not name.startswith(prefix))
            return {name: self[name] for name in self._names[first:last]}

    return Sorted


def _listed(list_objects: Callable[..., Page]) -> Callable[..., Page]:
    """moto's listing, given only what it can be about: it reads the name of every object otherwise.

    Without `max_keys` it is a part of the newer listing. In the older one, too, folders count as names: moto
    has all of them on each page.
    """

    @functools.wraps(list_objects)
    def only_those(
        self: S3Backend,
        bucket: FakeBucket,
        prefix: str | None,
        delimiter: str | None,
        marker: str | None,
        max_keys: int | None,
    ) -> Page:
        known = SimpleNamespace(keys=bucket.keys.beginning_with(prefix or ""))
        keys, folders, _, _ = list_objects(self, known, prefix, delimiter, None, None)
        if max_keys is None:
            return keys, folders, False, None
        page = sorted([*keys, *folders], key=self._get_name)
        if marker:
            page = self._get_results_from_token(page, self._pagination_tokens.get(marker) or marker)
        page, cut, token = self._truncate_result(page, max_keys)
        names = [part for part in page if isinstance(part, str)]
        return [part for part in page if not isinstance(part, str)], names, cut, token

    return only_those


class Tokens:
    """moto's tokens by which a listing goes on. They hold the last name, so they outlive the process."""

    def get(self, token: str) -> str | None:
        """The last name of the page before, or None for what is no token."""
        if not token.startswith(TOKEN):
            return None
        with contextlib.suppress(ValueError):
            return bytes.fromhex(token.removeprefix(TOKEN)).decode()
        return None


def _truncated(self: S3Backend, names: list[FakeKey], count: int) -> tuple[list[FakeKey], bool, str | None]:
    """The first names, True if there are more, and the token for these."""
    page = names[:count]
    if not page or len(names) <= count:
        return page, False, None
    last = self._get_name(page[-1])
    return page, True, TOKEN + last.encode().hex()
