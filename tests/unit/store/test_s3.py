from __future__ import annotations

import errno
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from lab.errors import StoreError, UsageError
from lab.store import MissingObjectError, ObjectStore, Store
from lab.topology import BUCKET, Credentials
from tests.fakes.store import FakeObjectStore
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, AnswerPool, Server, WsgiPool


@pytest.fixture(params=["real", "fake"])
def store(request: pytest.FixtureRequest, server: Server) -> Store:
    """The real store over the stand-in server, and the fake: they must behave alike."""
    if request.param == "fake":
        return FakeObjectStore()
    store = ObjectStore(HOST, CREDENTIALS, http=WsgiPool(server))
    store.ensure_bucket()
    return store


def test_what_is_put_can_be_got(store: Store) -> None:
    store.put("a/b c+ü", b"data")
    assert store.get("a/b c+ü") == b"data"
    store.put("a/b c+ü", b"newer")
    assert store.get("a/b c+ü") == b"newer"


def test_large_objects_come_in_pieces(store: Store) -> None:
    data = bytes(range(256)) * 8192
    store.put("big", data)
    pieces = list(store.read("big"))
    assert b"".join(pieces) == data
    assert len(pieces) > 1


def test_listings_are_by_key_and_know_size_time_and_etag(store: Store) -> None:
    for key in ("b", "a/2", "a/1/x", "ab"):
        store.put(key, key.encode())
    entries = store.list()
    assert [(e.key, e.size) for e in entries] == [("a/1/x", 5), ("a/2", 3), ("ab", 2), ("b", 1)]
    assert all(e.modified > 1.7e9 and len(e.etag) == 32 for e in entries)
    assert [e.key for e in store.list("a/")] == ["a/1/x", "a/2"]


def test_folders_stay_closed_when_not_recursive(store: Store) -> None:
    for key in ("a/2", "a/1/x", "b"):
        store.put(key, b"x")
    assert {e.key for e in store.list(recursive=False)} == {"a/", "b"}
    assert {(e.key, e.size) for e in store.list("a/", recursive=False)} == {("a/1/", 0), ("a/2", 1)}


def test_exists_means_exactly_this_key(store: Store) -> None:
    store.put("run/checkpoint", b"x")
    assert store.exists("run/checkpoint")
    assert not store.exists("run/check")
    assert not store.exists("run")


def test_deleting_what_is_not_there_is_no_error(store: Store) -> None:
    store.put("a", b"x")
    store.delete(["a", "never"])
    store.delete([])
    assert store.list() == ()


def test_a_prefix_is_deleted_and_counted(store: Store) -> None:
    for key in ("a/1", "a/2", "b"):
        store.put(key, b"x")
    assert store.delete_prefix("a/") == 2
    assert [e.key for e in store.list()] == ["b"]


def test_an_empty_prefix_does_not_delete_everything(store: Store) -> None:
    store.put("a", b"x")
    with pytest.raises(UsageError):
        store.delete_prefix("")
    assert store.exists("a")


def test_a_missing_object_is_its_own_error(store: Store) -> None:
    with pytest.raises(MissingObjectError, match="s3://ray/nope"):
        store.get("nope")


def test_buckets_are_made_once_and_kept_apart(store: Store) -> None:
    other = store.in_bucket("other")
    with pytest.raises(StoreError, match="no bucket 'other'"):
        other.put("a", b"x")
    assert [store.ensure_bucket("other") for _ in range(2)] == [True, False]
    other.put("a", b"x")
    assert (other.get("a"), store.exists("a")) == (b"x", False)


def test_ping_says_what_answered(store: Store) -> None:
    assert store.ping().split()[0] in ("moto", "fake")


def calls(store: ObjectStore) -> tuple[Callable[[], Any], ...]:
    return (
        store.ensure_bucket,
        store.list,
        store.ping,
        lambda: store.put("a", b"x"),
        lambda: store.get("a"),
        lambda: store.exists("a"),
        lambda: store.delete(["a"]),
    )


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        (Credentials("labkey", "wrong"), "refuses the secret key for labk\\.\\.\\."),
        (Credentials("nobody", "labsecret"), "does not know the access key nobo\\.\\.\\."),
    ],
)
def test_a_wrong_key_is_told_apart(
    server: Server, credentials: Credentials, message: str, index: int
) -> None:
    store = ObjectStore(HOST, credentials, http=WsgiPool(server))
    with pytest.raises(StoreError, match=message) as caught:
        calls(store)[index]()
    assert HOST in caught.value.message
    assert caught.value.hint
    assert credentials.secret_key not in caught.value.message
    assert credentials.access_key not in caught.value.message


@pytest.mark.parametrize(
    ("credentials", "bucket", "message"),
    [
        (Credentials("nobody", "labsecret"), BUCKET, "does not know the access key"),
        (Credentials("labkey", "wrong"), BUCKET, "refuses the secret key"),
        (Credentials("labkey", "labsecret"), "nowhere", "has no bucket 'nowhere'"),
    ],
)
def test_a_store_of_no_lab_gives_the_advice_of_whoever_named_it(
    server: Server, credentials: Credentials, bucket: str, message: str
) -> None:
    store = ObjectStore(HOST, credentials, bucket=BUCKET, http=WsgiPool(server), advice="check it")
    with pytest.raises(StoreError, match=message) as caught:
        store.in_bucket(bucket).list()
    assert caught.value.hint == "check it"


def test_a_full_store_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(HOST, CREDENTIALS, http=WsgiPool(server))
    store.ensure_bucket()

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StoreError, match="the disk is full") as caught:
        store.put("a", b"x")
    assert "free some space" in caught.value.hint


@pytest.mark.parametrize("index", range(7))
def test_a_store_that_is_down_is_told(index: int) -> None:
    pool = urllib3.connectionpool.HTTPConnectionPool("127.0.0.1", 9000)
    refused = NewConnectionError(HTTPConnection("127.0.0.1", 9000), "Failed to establish a new connection")
    refused.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    store = ObjectStore(HOST, CREDENTIALS, http=AnswerPool(MaxRetryError(pool, "/ray", refused)))
    with pytest.raises(StoreError, match="Connection refused") as caught:
        calls(store)[index]()
    assert (HOST in caught.value.message, "labctl status" in caught.value.hint) == (True, True)


def test_a_store_that_hangs_is_told() -> None:
    pool = urllib3.connectionpool.HTTPConnectionPool("127.0.0.1", 9000)
    late = ConnectTimeoutError(pool, "Connection to 127.0.0.1 timed out. (connect timeout=3.0)")
    store = ObjectStore(HOST, CREDENTIALS, http=AnswerPool(MaxRetryError(pool, "/ray", late)))
    with pytest.raises(StoreError, match="no connection within 3 s"):
        store.list()


def test_something_else_at_that_port_is_told() -> None:
    def page() -> Any:
        return urllib3.HTTPResponse(
            io.BytesIO(b"<html>hello</html>"), headers={"content-type": "text/html"}, status=404
        )

    store = ObjectStore(HOST, CREDENTIALS, http=AnswerPool(page))
    with pytest.raises(StoreError, match="not an object store"):
        store.list()


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "ftp://h:1", "http://", "http://h:1/path"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(StoreError, match="not an address"):
        ObjectStore(address, CREDENTIALS).list()
