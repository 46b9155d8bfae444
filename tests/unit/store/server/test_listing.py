"""Listings of the stand-in S3 server, which read the names of what they list and no others."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from tests.unit.store.s3_wsgi import Server

NAMES = [
    "a",
    "a/",
    "a/b",
    "a/b/c",
    "a/b/d",
    "a-b",
    "a0",
    "b/c",
    "b",
    "ä/ö",
    "z",
    "é",
    "a/\U0001f600",
    "a/b\ufffd",
]


def names(server: Server, **query: str) -> tuple[list[str], list[str]]:
    """The objects and the folders of a listing, all pages of it."""
    objects: list[str] = []
    folders: list[str] = []
    token = ""
    while True:
        more = {"continuation-token": token} if token else {}
        answer = server(
            "GET", f"/ray?{urlencode(sorted({'list-type': '2', **query, **more}.items()), quote_via=quote)}"
        )
        assert answer.status_code == 200
        root = ElementTree.fromstring(answer.data)
        space = root.tag.removesuffix("ListBucketResult")
        objects += [key.text or "" for key in root.iterfind(f"{space}Contents/{space}Key")]
        folders += [key.text or "" for key in root.iterfind(f"{space}CommonPrefixes/{space}Prefix")]
        token = root.findtext(f"{space}NextContinuationToken") or ""
        if not token:
            return objects, folders


def fill(server: Server) -> Server:
    server("PUT", "/ray")
    for name in random.Random(1).sample(NAMES, len(NAMES)):
        assert server("PUT", f"/ray/{quote(name)}", b"x").status_code == 200
    return server


@pytest.fixture
def filled(server: Server) -> Server:
    return fill(server)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests that only read."""
    server = Server(tmp_path_factory.mktemp("objects"))
    yield fill(server)
    server.die()


@pytest.mark.parametrize(
    "prefix", ["", "a", "a/", "a/b", "a/b/", "b", "b/", "ä", "q", "a/b\ufffd", "z\ufffd"]
)
@pytest.mark.parametrize("size", ["1000", "2"])
def test_a_listing_has_every_name_with_its_prefix_in_order(unchanged: Server, prefix: str, size: str) -> None:
    expected = sorted(name for name in NAMES if name.startswith(prefix))
    assert names(unchanged, prefix=prefix, **{"max-keys": size}) == (expected, [])


def test_folders_stand_for_what_is_in_them(unchanged: Server) -> None:
    assert names(unchanged, prefix="a", delimiter="/") == (["a", "a-b", "a0"], ["a/"])
    assert names(unchanged, delimiter="/")[1] == ["a/", "b/", "ä/"]


def test_what_is_deleted_written_again_or_restored_is_listed_as_it_is(filled: Server) -> None:
    for name in ("a/b", "b", "a/b/d"):
        assert filled("DELETE", f"/ray/{quote(name)}").status_code == 204
    filled("PUT", "/ray/b", b"again")
    filled("PUT", "/ray/b", b"and again")
    body = b"<Delete><Object><Key>a0</Key></Object><Object><Key>unknown</Key></Object></Delete>"
    assert filled("POST", "/ray?delete", body).status_code == 200
    expected = sorted(set(NAMES) - {"a/b", "a/b/d", "a0"})
    assert names(filled) == (expected, [])
    filled.die()
    assert names(Server(filled.disk.root)) == (expected, [])


def test_a_bucket_that_is_made_anew_is_empty(filled: Server) -> None:
    for name in NAMES:
        filled("DELETE", f"/ray/{quote(name)}")
    assert filled("DELETE", "/ray").status_code == 204
    filled("PUT", "/ray")
    assert names(filled) == ([], [])


def test_a_deletion_of_many_reads_no_other_object(filled: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(bucket: str) -> None:
        raise AssertionError("every object of the bucket was read")

    monkeypatch.setattr(filled.disk, "objects", never)
    body = "".join(f"<Object><Key>{name}</Key></Object>" for name in ("a", "a/", "b"))
    filled("DELETE", "/ray/b")
    filled("PUT", "/ray/b", b"again")
    assert filled("POST", "/ray?delete", f"<Delete>{body}</Delete>".encode()).status_code == 200
    monkeypatch.undo()
    expected = sorted(set(NAMES) - {"a", "a/", "b"})
    assert names(filled) == (expected, [])
    filled.die()
    assert names(Server(filled.disk.root)) == (expected, [])
