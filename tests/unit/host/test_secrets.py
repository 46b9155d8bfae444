"""The keys and tokens of a lab."""

from __future__ import annotations

import base64
import configparser
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from lab.errors import ServiceError, SetupError, UsageError
from lab.host.files import hand_over
from lab.host.secrets import (
    AWS_FILE,
    GRAFANA_FILE,
    JUPYTER_FILE,
    METRICS_FILE,
    RAY_FILE,
    REDIS_FILE,
    REDIS_SETTINGS_FILE,
    ROOT_PASSWORD_FILE,
    ROOT_USER_FILE,
    STORE_FILE,
    Secrets,
    files,
    key_from,
    load_or_make,
    read_key,
    read_secret,
)
from lab.topology import Credentials

KEY = Credentials("access", "secret")
FILES = {
    AWS_FILE,
    GRAFANA_FILE,
    JUPYTER_FILE,
    METRICS_FILE,
    RAY_FILE,
    REDIS_FILE,
    REDIS_SETTINGS_FILE,
    ROOT_PASSWORD_FILE,
    ROOT_USER_FILE,
    STORE_FILE,
}


def values(secrets: Secrets) -> tuple[str, ...]:
    return (
        *(
            secrets.store.access_key,
            secrets.store.secret_key,
            secrets.root.access_key,
            secrets.root.secret_key,
        ),
        *(secrets.ray_token, secrets.jupyter_token, secrets.grafana_password, secrets.redis_password),
    )


def test_secrets_are_made_once_and_are_different_for_every_lab(tmp_path: Path) -> None:
    first = load_or_make(tmp_path / "a")

    assert load_or_make(tmp_path / "a") == first
    other = load_or_make(tmp_path / "b")
    made = {*values(first), *values(other)}
    assert len(made) == 16
    assert min(map(len, made)) >= 20


def test_only_their_owner_may_read_them(tmp_path: Path) -> None:
    load_or_make(tmp_path / "secrets")

    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "secrets").iterdir()}
    assert modes == dict.fromkeys(FILES, 0o600)
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

    for value in set(values(secrets)) - {secrets.store.access_key, secrets.root.access_key}:
        assert value not in repr(secrets)


def test_a_lab_that_knew_one_key_of_the_store_keeps_it_as_its_training_key(tmp_path: Path) -> None:
    (tmp_path / STORE_FILE).write_text('{"access_key": "old", "secret_key": "older"}')

    secrets = load_or_make(tmp_path)

    assert (secrets.store.access_key, secrets.store.secret_key) == ("old", "older")
    assert secrets.root.access_key != "old"


def test_the_keys_of_the_store_fit_what_minio_takes(tmp_path: Path) -> None:
    secrets = load_or_make(tmp_path)

    for key in (secrets.store, secrets.root):
        assert (3 <= len(key.access_key) <= 20, 8 <= len(key.secret_key) <= 40) == (True, True)


def test_the_aws_file_carries_the_training_key_and_follows_it(tmp_path: Path) -> None:
    load_or_make(tmp_path)
    (tmp_path / STORE_FILE).write_text('{"access_key": "another", "secret_key": "secret"}')

    load_or_make(tmp_path)

    parsed = configparser.ConfigParser()
    parsed.read(tmp_path / AWS_FILE)
    assert dict(parsed["default"]) == {"aws_access_key_id": "another", "aws_secret_access_key": "secret"}


def test_the_metrics_token_is_signed_with_the_root_key_and_follows_it(tmp_path: Path) -> None:
    root = load_or_make(tmp_path).root
    before = (tmp_path / METRICS_FILE).read_text()
    (tmp_path / ROOT_PASSWORD_FILE).write_text("a new password")

    load_or_make(tmp_path)
    token = (tmp_path / METRICS_FILE).read_text()

    assert token != before
    head, claims, signature = token.split(".")
    expected = hmac.new(b"a new password", f"{head}.{claims}".encode(), hashlib.sha512).digest()
    assert decoded(signature) == expected
    assert json.loads(decoded(head)) == {"alg": "HS512", "typ": "JWT"}
    stated = json.loads(decoded(claims))
    assert (stated["sub"], stated["iss"]) == (root.access_key, "prometheus")
    assert stated["exp"] > 4e9


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_files_that_are_right_are_not_written_again(tmp_path: Path) -> None:
    load_or_make(tmp_path)
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}

    load_or_make(tmp_path)

    assert {path.name: path.stat().st_ino for path in tmp_path.iterdir()} == before


def test_files_are_handed_over_to_the_user_that_containers_run_as(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr("os.chown", lambda path, uid, gid, **_: given.update({path.name: (uid, gid)}))
    load_or_make(tmp_path)

    hand_over(files(tmp_path), 12345, 6789)

    assert given == dict.fromkeys(FILES, (12345, 6789))


def test_files_that_cannot_be_handed_over_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, uid: int, gid: int, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("os.chown", refuse)
    load_or_make(tmp_path)

    with pytest.raises(SetupError, match="12345"):
        hand_over(files(tmp_path), 12345, 6789)


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
        (ROOT_USER_FILE, b""),
        (ROOT_PASSWORD_FILE, b"\xff"),
        (GRAFANA_FILE, b" "),
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


def test_the_settings_of_redis_follow_from_its_password(tmp_path: Path) -> None:
    first = load_or_make(tmp_path)
    assert (tmp_path / REDIS_SETTINGS_FILE).read_text() == f"requirepass {first.redis_password}\n"
    (tmp_path / REDIS_FILE).unlink()
    second = load_or_make(tmp_path)
    assert second.redis_password != first.redis_password
    assert (tmp_path / REDIS_SETTINGS_FILE).read_text() == f"requirepass {second.redis_password}\n"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"access_key": "access", "secret_key": "secret"}),
        "[default]\naws_access_key_id = access\naws_secret_access_key = secret\n",
        "[other]\nx = y\n[default]\nregion = x\naws_access_key_id=access\naws_secret_access_key=secret\n",
    ],
)
def test_a_key_is_read_from_json_or_from_an_aws_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    assert read_key(tmp_path / "key") == KEY


@pytest.mark.parametrize(
    "text",
    ["{", "{}", "no section", "[default]\n", "[default]\naws_access_key_id=\naws_secret_access_key=x"],
)
def test_a_file_without_a_key_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(UsageError, match="holds no key"):
        read_key(tmp_path / "key")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(tmp_path / "key")


def test_a_key_in_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(json.dumps(vars(KEY)))
    file = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "key")}
    both = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert key_from({**file, **both}) == Credentials("a", "b")
    assert key_from({**file, "AWS_ACCESS_KEY_ID": "a"}) == KEY
    assert key_from({"AWS_ACCESS_KEY_ID": "a"}) is None


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_secret_that_is_not_there_or_empty_is_told(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "token").write_text(text)
    with pytest.raises(UsageError, match=r"token (cannot be read|is empty)") as caught:
        read_secret(tmp_path / "token", "this names it")
    assert caught.value.hint == "this names it"
