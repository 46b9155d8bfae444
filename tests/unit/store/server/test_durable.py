"""What the stand-in S3 server has acknowledged is on the disk, and nobody else waits until it is there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.unit.store.s3_wsgi import Server
from tests.unit.store.server.test_server import upload

PATIENCE = 20.0


@pytest.fixture
def server(server: Server) -> Server:
    assert server("PUT", "/ray").status_code == 200
    server.flushed.clear()
    return server


def inode(path: Path) -> int:
    return path.stat().st_ino


def objects(root: Path) -> list[Path]:
    return sorted((root / "buckets" / "ray").glob("*.object"))


def test_an_object_is_flushed_before_it_has_its_name_and_then_its_name(server: Server, root: Path) -> None:
    assert server("PUT", "/ray/a", b"data").status_code == 200
    (first,) = objects(root)
    assert server.flushed == [inode(first), inode(first.parent)]


def test_a_flush_that_fails_refuses_the_object_and_keeps_what_was_there(server: Server, root: Path) -> None:
    server("PUT", "/ray/a", b"old")
    server.flush_fails = True
    assert server("PUT", "/ray/a", b"new").status_code == 507
    server.flush_fails = False
    assert server("GET", "/ray/a").data == b"old"
    assert list((root / "tmp").iterdir()) == []


def test_an_upload_in_parts_a_copy_and_a_delete_are_flushed(server: Server, root: Path) -> None:
    folder = inode(root / "buckets" / "ray")
    complete = upload(server, "big", [b"a" * (5 << 20), b"b"])
    assert server.flushed == [], "parts end with the process anyway"
    assert complete().status_code == 200
    assert server.flushed == [inode(objects(root)[0]), folder]
    server.flushed.clear()
    assert server("PUT", "/ray/copy", headers={"x-amz-copy-source": "/ray/big"}).status_code == 200
    assert [path == folder for path in server.flushed] == [False, True]
    server.flushed.clear()
    assert server("DELETE", "/ray/copy").status_code == 204
    assert server.flushed == [folder]
    assert server("DELETE", "/ray/never").status_code == 204
    body = b"<Delete><Object><Key>big</Key></Object><Object><Key>never</Key></Object></Delete>"
    assert server("POST", "/ray?delete", body).status_code == 200
    assert server.flushed == [folder, folder], "once for all that are deleted"


def test_buckets_are_flushed_when_they_come_and_go(server: Server, root: Path) -> None:
    assert server("PUT", "/other").status_code == 200
    folder = root / "buckets" / "other"
    assert server.flushed == [inode(folder / "bucket.json"), inode(folder), inode(folder.parent)]
    record = inode(folder)
    server.flushed.clear()
    assert server("DELETE", "/other").status_code == 204
    assert server.flushed == [record]


class Waiting:
    """A server whose next flush waits, in a thread that puts `/ray/a`, until `end` is called."""

    def __init__(self, server: Server) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self._server, self.statuses = server, list[int]()
        server.before_flush = self._wait
        self._thread = threading.Thread(target=self._put, daemon=True)
        self._thread.start()
        assert self._reached.wait(PATIENCE)

    def _wait(self) -> None:
        self._reached.set()
        assert self._go.wait(PATIENCE)

    def _put(self) -> None:
        self.statuses.append(self._server("PUT", "/ray/a", b"new").status_code)

    def end(self) -> None:
        self._server.before_flush = None
        self._go.set()
        self._thread.join(PATIENCE)
        assert self.statuses == [200]


def other_key(server: Server) -> str:
    """A key whose lock is not that of `a`."""
    count = len(server.app._stripes)
    taken = hash(("ray", "a")) % count
    return next(key for key in map(str, range(1000)) if hash(("ray", key)) % count != taken)


def test_others_read_and_list_while_an_object_waits_for_the_disk(server: Server) -> None:
    other = other_key(server)
    server("PUT", f"/ray/{other}", b"x")
    waiting = Waiting(server)
    assert server("GET", f"/ray/{other}").data == b"x"
    assert set(server.keys()) == {"a", other}
    assert "<Size>3</Size>" in server("GET", "/ray?list-type=2&prefix=a").text
    waiting.end()


class Noticed:
    """A lock that tells when somebody wants it."""

    def __init__(self, wanted: threading.Event) -> None:
        self._lock, self._wanted = threading.Lock(), wanted

    def __enter__(self) -> None:
        if self._lock.locked():
            self._wanted.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_who_asks_for_that_object_meanwhile_gets_it_as_it_is_then(server: Server, method: str) -> None:
    wanted = threading.Event()
    server.app._stripes = tuple(Noticed(wanted) for _ in server.app._stripes)
    waiting = Waiting(server)
    answers: list[int] = []
    body = b"<Delete><Object><Key>a</Key></Object></Delete>" if method == "POST" else b""

    def ask() -> None:
        answers.append(server(method, "/ray?delete" if method == "POST" else "/ray/a", body).status_code)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert wanted.wait(PATIENCE)
    assert answers == []
    waiting.end()
    thread.join(PATIENCE)
    assert answers == [204 if method == "DELETE" else 200]
    kept = {"GET": b"new", "PUT": b""}.get(method)
    assert kept is None or server("GET", "/ray/a").data == kept
    assert server.keys() == ([] if kept is None else ["a"])
