"""The keys and tokens of a lab."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.errors import ServiceError
from lab.secrets import JUPYTER_FILE, RAY_FILE, STORE_FILE, load_or_make


def test_secrets_are_made_once_and_are_different_for_every_lab(tmp_path: Path) -> None:
    first = load_or_make(tmp_path / "a")

    assert load_or_make(tmp_path / "a") == first
    other = load_or_make(tmp_path / "b")
    values = {
        s
        for x in (first, other)
        for s in (x.store.access_key, x.store.secret_key, x.ray_token, x.jupyter_token)
    }
    assert len(values) == 8
    assert min(map(len, values)) >= 20


def test_only_their_owner_may_read_them(tmp_path: Path) -> None:
    load_or_make(tmp_path / "secrets")

    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "secrets").iterdir()}
    assert modes == {STORE_FILE: 0o600, RAY_FILE: 0o600, JUPYTER_FILE: 0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_a_missing_file_is_made_anew_and_the_others_stay(tmp_path: Path) -> None:
    first = load_or_make(tmp_path)
    (tmp_path / RAY_FILE).unlink()

    second = load_or_make(tmp_path)

    assert second.store == first.store
    assert second.jupyter_token == first.jupyter_token
    assert second.ray_token != first.ray_token


def test_no_secret_shows_when_printed(tmp_path: Path) -> None:
    secrets = load_or_make(tmp_path)

    for value in (secrets.store.secret_key, secrets.ray_token, secrets.jupyter_token):
        assert value not in repr(secrets)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (STORE_FILE, b"{"),
        (STORE_FILE, b"[]"),
        (STORE_FILE, b'{"access_key": "a"}'),
        (STORE_FILE, json.dumps({"access_key": "", "secret_key": ""}).encode()),
        (RAY_FILE, b"\xff\xfe"),
        (RAY_FILE, b""),
        (JUPYTER_FILE, b"\n"),
    ],
)
def test_a_damaged_file_is_a_service_error_that_names_the_folder(
    tmp_path: Path, file: str, content: bytes
) -> None:
    load_or_make(tmp_path)
    (tmp_path / file).write_bytes(content)

    with pytest.raises(ServiceError, match=str(tmp_path)) as caught:
        load_or_make(tmp_path)
    assert caught.value.hint
