"""Receipts of recoveries, read with the key of whoever looks: the store decides what it gives her."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

from lab.api.light import answer
from lab.api.receipt import ReceiptDocument
from lab.errors import LabError, NotFoundError, StoreError
from lab.host.clock import MONOTONIC, Clock
from lab.host.reading import parse_json
from lab.people.registry import Person
from lab.people.rights import rights
from lab.store.base import MissingObjectError, Store, StoredObject
from lab.topology import RECEIPTS_PREFIX, Credentials

SHOWN = 20
"""Receipts that are listed, the newest."""

FRESH_SECONDS = 15.0
"""Age up to which a listing is given again: a receipt takes longer to come about."""

PATIENCE_SECONDS = 5.0

MOST_KEPT = 500
"""Receipts in memory; they never change."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}-\d{1,12}")

T = TypeVar("T")
OpenStore = Callable[[Credentials], Store]
"""Opens the object store with a key."""

Receipts = tuple[tuple[str, ReceiptDocument], ...]
"""Name and receipt, the newest first."""


class ReceiptReader:
    """Reads receipts; each person's listing is kept for a moment."""

    def __init__(self, open_store: OpenStore | None, clock: Clock = MONOTONIC) -> None:
        """`open_store` opens the store with a key; without it no receipt can be read."""
        self._open_store, self._clock = open_store, clock
        self._listed: dict[str, tuple[float, Receipts]] = {}
        self._known: dict[StoredObject, ReceiptDocument] = {}

    async def latest(self, person: Person) -> Receipts | LabError:
        """The newest receipts that she may read, or the reason for which there are none."""
        at, listed = self._listed.get(person.name, (float("-inf"), ()))
        if self._clock() - at > FRESH_SECONDS:
            try:
                listed = await _in_time(lambda: self._latest(person))
            except LabError as error:
                return error
            self._listed[person.name] = self._clock(), listed
        return listed

    async def get(self, person: Person, name: str) -> ReceiptDocument:
        """One receipt. Raises NotFoundError for one that is not there or not for her, StoreError."""
        key = f"{RECEIPTS_PREFIX}/{name}.json"
        if not NAME.fullmatch(name) or not rights(person.role, person.name).may_read(key):
            raise NotFoundError(f"there is no receipt {name[:80]!a} that you may read")
        try:
            return await _in_time(lambda: _read(self._store(person), key))
        except MissingObjectError as error:
            raise NotFoundError(f"there is no receipt {name}") from error

    def _store(self, person: Person) -> Store:
        if self._open_store is None:
            raise StoreError("the gateway was not given the address of the store")
        return self._open_store(person.key)

    def _latest(self, person: Person) -> Receipts:
        store = self._store(person)
        mine = [p for p in rights(person.role, person.name).reads if p.startswith(RECEIPTS_PREFIX)]
        entries = {entry.key: entry for prefix in mine for entry in store.list(prefix)}
        names = {key: key.removeprefix(f"{RECEIPTS_PREFIX}/").removesuffix(".json") for key in entries}
        newest = sorted(
            (entry for key, entry in entries.items() if key.endswith(".json") and NAME.fullmatch(names[key])),
            key=lambda entry: -entry.modified,
        )[:SHOWN]
        if len(self._known) > MOST_KEPT:
            self._known.clear()
        for entry in newest:
            if entry not in self._known:
                self._known[entry] = _read(store, entry.key)
        return tuple((names[entry.key], self._known[entry]) for entry in newest)


async def _in_time(work: Callable[[], T]) -> T:
    """The result of work that waits for the store. Raises StoreError after some seconds."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(work), PATIENCE_SECONDS)
    except asyncio.TimeoutError as error:
        raise StoreError(f"the store did not answer within {PATIENCE_SECONDS:g} s") from error


def _read(store: Store, key: str) -> ReceiptDocument:
    """A receipt in the store. Raises StoreError."""
    try:
        document = parse_json(store.get(key))
    except ValueError as error:
        raise StoreError(f"{key} is not JSON: {error}") from error
    return answer(ReceiptDocument, document, key, StoreError)
