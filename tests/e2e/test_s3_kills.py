"""Many clients at an object store that is killed meanwhile: what it has acknowledged, it has."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from lab.errors import StoreError
from lab.store import ObjectStore
from lab.store.base import MissingObjectError
from tests.e2e.servers import S3Server, started
from tests.waiting import PATIENCE, eventually

CLIENTS, KEYS, KILLS = 100, 5, 3
WORK_SECONDS = 600.0
"""Patience for a quarter of the operations: 5,000 take 25 s on 2 idle cores."""

SIZES = (0, 100, 3_000, 20_000)
"""Bytes of an object."""

OPERATIONS = [2_000, pytest.param(20_000, marks=pytest.mark.rare)]


@dataclass
class Progress:
    """The number of operations that all clients have done. Kills happen at its thirds."""

    total: int
    done: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    up: threading.Event = field(default_factory=threading.Event)

    def count(self, refused: bool) -> None:
        """Count an operation."""
        with self.lock:
            self.done += 1
            self.refused += refused


class KillClient:
    """One client with keys of its own. `may_be` has what each of them can hold: None for no object."""

    def __init__(self, number: int, store: ObjectStore) -> None:
        self.store = store
        self.random = random.Random(number)
        self.may_be: dict[str, set[bytes | None]] = {f"{number:03}/{key}": {None} for key in range(KEYS)}

    def work(self, operations: int, progress: Progress) -> None:
        """Put, delete and read; after a refusal wait until the server is there again."""
        for _ in range(operations):
            assert progress.up.wait(PATIENCE), "the server was not started again"
            key = self.random.choice(sorted(self.may_be))
            try:
                self.change(key)
            except StoreError:
                progress.count(refused=True)
            else:
                progress.count(refused=False)

    def change(self, key: str) -> None:
        """One operation. Raises StoreError where nobody knows if it was done."""
        act = self.random.random()
        if act < 0.2:
            assert self.read(key) in self.may_be[key], key
            return
        wanted = None if act < 0.3 else self.random.randbytes(self.random.choice(SIZES))
        self.may_be[key].add(wanted)
        if wanted is None:
            self.store.delete([key])
        else:
            self.store.put(key, wanted)
        self.may_be[key] = {wanted}

    def read(self, key: str) -> bytes | None:
        """The object, or None without one. Raises StoreError."""
        try:
            return self.store.get(key)
        except MissingObjectError:
            return None


SERVERS = [pytest.param("minio", marks=pytest.mark.minio), "moto"]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with contextlib.ExitStack() as until:
        yield started(request.param, tmp_path_factory, until)


@pytest.mark.parametrize("operations", OPERATIONS)
def test_no_acknowledged_object_is_lost_by_kills_amid_a_hundred_clients(
    server: S3Server, operations: int
) -> None:
    progress = Progress(operations)
    progress.up.set()
    clients = [KillClient(number, server.store) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(client.work, operations // CLIENTS, progress) for client in clients]
        for kill in range(1, KILLS + 1):
            amid(progress, operations * kill // (KILLS + 1), lambda: any(one.done() for one in working))
            progress.up.clear()
            server.kill()
            server.start()
            progress.up.set()
        for one in working:
            one.result()
    assert progress.done == operations
    assert 0 < progress.refused < operations / 4, "no kill came amid an operation, or it was hardly up"
    lost = [key for client in clients for key in client.may_be if client.read(key) not in client.may_be[key]]
    assert lost == []
    listed = {stored.key for stored in server.store.list()}
    surely = {key for client in clients for key, states in client.may_be.items() if None not in states}
    assert surely <= listed


def amid(progress: Progress, count: int, broken: Callable[[], bool]) -> None:
    """Wait until so many operations are done, or a client has ended."""
    eventually(lambda: progress.done >= count or broken(), WORK_SECONDS, f"{count} operations are done")
