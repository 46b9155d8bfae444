"""Variables that modules look up as they are imported."""

from __future__ import annotations

import os

import pytest

from forkserver.reads import Reads


def test_lookups_by_name_are_noted_however_they_are_made() -> None:
    read = Reads()
    with read.noted():
        os.environ.get("ONE")
        os.getenv("TWO", "2")
        assert "THREE" not in os.environ
        with pytest.raises(KeyError):
            os.environ["FOUR"]
        os.environ.setdefault("PATH", "")
    assert read.names == {"ONE", "TWO", "THREE", "FOUR", "PATH"}


def test_who_looks_through_all_variables_for_a_prefix_has_read_those_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    read = Reads()
    with read.noted():
        assert {k: v for k, v in os.environ.items() if k.startswith("TQDM_")} == {"TQDM_DISABLE": "1"}
        assert [key for key in os.environ if key.startswith(("FSSPEC_", "FS_"))] == []
    assert (read.names, read.prefixes) == (set(), {"TQDM_", "FSSPEC_", "FS_"})
    assert "TQDM_MININTERVAL" in read
    assert "PATH" not in read


def test_who_copies_all_variables_has_read_none_of_them() -> None:
    read = Reads()
    with read.noted():
        copies = os.environ.copy(), dict(os.environ), {**os.environ}
    assert copies[0] == copies[1] == copies[2] == dict(os.environ)
    assert (read.names, read.prefixes) == (set(), set())
    assert "PATH" not in read


def test_afterwards_nothing_is_noted_any_more() -> None:
    read = Reads()
    with pytest.raises(ZeroDivisionError), read.noted():
        raise ZeroDivisionError
    os.environ.get("ONE")
    assert read.names == set()
    assert all(type(name) is str for name in os.environ)
