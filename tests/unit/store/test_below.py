"""A folder of a bucket as a store of its own."""

from __future__ import annotations

from lab.store.below import StoreBelow
from tests.fakes.store import FakeObjectStore


def test_keys_are_those_below_the_folder() -> None:
    whole = FakeObjectStore()
    part = StoreBelow(whole, "/team/ray/")
    part.put("a/1", b"one")
    whole.put("team/rayon/2", b"two")
    assert [entry.key for entry in part.list()] == ["a/1"]
    assert [entry.key for entry in whole.list("team/ray/")] == ["team/ray/a/1"]
    assert (part.get("a/1"), part.exists("a/1"), part.exists("team/ray/a/1")) == (b"one", True, False)
    part.delete(["a/1"])
    assert [entry.key for entry in whole.list()] == ["team/rayon/2"]


def test_another_bucket_is_seen_whole() -> None:
    whole = FakeObjectStore()
    whole.put("run/checkpoint_1/x", b"1")
    assert StoreBelow(whole, "team").in_bucket(whole.bucket).get("run/checkpoint_1/x") == b"1"


def test_without_a_folder_it_is_the_bucket() -> None:
    whole = FakeObjectStore()
    StoreBelow(whole, "").put("a", b"1")
    assert whole.get("a") == b"1"
