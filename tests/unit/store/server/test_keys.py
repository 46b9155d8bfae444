"""The stand-in S3 server's training key reaches its bucket and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.errors import StoreError, UsageError
from lab.store.admin import MinioAdministration
from lab.store.server import __main__ as s3server
from lab.store.server.keys import Key, Keyring
from lab.topology import Credentials
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, Server, WsgiPool


@pytest.fixture
def server(server: Server) -> Server:
    """With the buckets `ray` and `other`, each of which holds an object `a`."""
    for path in ("/ray", "/other", "/ray/a", "/other/a"):
        assert server("PUT", path, b"secret" if path.endswith("a") else b"").status_code == 200
    return server


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/ray?list-type=2", b"", 200),
        ("HEAD", "/ray", b"", 200),
        ("GET", "/ray?location", b"", 200),
        ("GET", "/ray?uploads", b"", 200),
        ("PUT", "/ray/b", b"x", 200),
        ("GET", "/ray/a", b"", 200),
        ("HEAD", "/ray/a", b"", 200),
        ("DELETE", "/ray/a", b"", 204),
        ("POST", "/ray/b?uploads", b"", 200),
        ("POST", "/ray?delete", b"<Delete><Object><Key>a</Key></Object></Delete>", 200),
    ],
)
def test_in_its_bucket_the_training_key_works(
    server: Server, method: str, path: str, body: bytes, status: int
) -> None:
    assert server(method, path, body, credentials=TRAINING).status_code == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/other?list-type=2"),
        ("HEAD", "/other"),
        ("GET", "/other/a"),
        ("HEAD", "/other/a"),
        ("PUT", "/other/b"),
        ("DELETE", "/other/a"),
        ("POST", "/other/b?uploads"),
        ("POST", "/other?delete"),
        ("GET", "/never?list-type=2"),
        ("PUT", "/never"),
        ("PUT", "/ray"),
        ("DELETE", "/ray"),
        ("DELETE", "/other"),
        ("PUT", "/ray?policy"),
        ("POST", "/"),
    ],
)
def test_everything_else_is_denied_to_the_training_key(server: Server, method: str, path: str) -> None:
    answer = server(method, path, b"<Delete><Object><Key>a</Key></Object></Delete>", credentials=TRAINING)
    assert answer.status_code == 403
    assert method == "HEAD" or "<Code>AccessDenied</Code>" in answer.text
    assert server("GET", "/other/a").data == b"secret"
    assert server.keys("other") == ["a"]


@pytest.mark.parametrize(
    "source",
    [
        "/other/a",
        "other/a",
        "%2Fother%2Fa",
        "//other/a",
        "//ray/other/a",
        "http://ray/other/a",
        "/ray",
        "ray//",
    ],
)
def test_what_the_training_key_copies_comes_from_its_bucket(server: Server, source: str) -> None:
    for path in ("/ray/b", "/ray/b?partNumber=1&uploadId=x"):
        answer = server("PUT", path, headers={"x-amz-copy-source": source}, credentials=TRAINING)
        assert answer.status_code in (400, 403, 404)
    assert b"secret" not in server("GET", "/ray/b").data


@pytest.mark.parametrize("source", ["/ray/a", "ray/a", "%2Fray%2Fa", "/ray/a?versionId=null"])
def test_the_training_key_copies_within_its_bucket(server: Server, source: str) -> None:
    answer = server("PUT", "/ray/b", headers={"x-amz-copy-source": source}, credentials=TRAINING)
    assert (answer.status_code, server("GET", "/ray/b").data) == (200, b"secret")


def test_an_odd_name_is_copied(server: Server) -> None:
    server("PUT", "/ray/a%3Fb%23c%25d", b"odd")
    answer = server("PUT", "/ray/b", headers={"x-amz-copy-source": "/ray/a%3Fb%23c%25d"})
    assert (answer.status_code, server("GET", "/ray/b").data) == (200, b"odd")


def test_a_listing_of_buckets_shows_only_what_the_key_may_use(server: Server) -> None:
    assert {"<Name>ray</Name>", "<Name>other</Name>"} <= set(names(server("GET", "/").text))
    answer = server("GET", "/", credentials=TRAINING)
    assert (answer.status_code, names(answer.text)) == (200, ["<Name>ray</Name>"])
    assert answer.headers["Content-Length"] == str(len(answer.data))
    assert 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"' in answer.text.split("<Bucket>")[0]


def names(listing: str) -> list[str]:
    return [f"<Name>{part.split('<')[0]}</Name>" for part in listing.split("<Name>")[1:]]


def test_a_key_is_found_by_its_whole_name() -> None:
    keys = Keyring(Key(CREDENTIALS), Key(TRAINING, "ray"))
    assert keys.find("trainingkey") == Key(TRAINING, "ray")
    assert keys.find("training") is None
    assert keys.find("") is None
    assert keys.find("schlüssel") is None


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "s3.json").write_text('{"access_key": "t", "secret_key": "ts"}')
    (tmp_path / "user").write_text("r\n")
    (tmp_path / "password").write_text("rs\n")
    (tmp_path / "same").write_text("t")
    (tmp_path / "empty").write_text("\n")
    return ["--port", "9000", "--root", str(tmp_path / "o"), "--credentials", str(tmp_path / "s3.json")]


def options(tmp_path: Path, **files: str) -> list[str]:
    return [word for name, file in files.items() for word in (f"--root-{name}-file", str(tmp_path / file))]


def test_root_and_training_key_come_from_files(tmp_path: Path, arguments: list[str]) -> None:
    given = options(tmp_path, user="user", password="password")
    keys = s3server.read_keys(s3server.parser().parse_args([*arguments, *given]))
    assert keys.find("r") == Key(Credentials("r", "rs"))
    assert keys.find("t") == Key(Credentials("t", "ts"), "ray")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"user": "user", "password": "none"}, "none cannot be read"),
        ({"user": "empty", "password": "password"}, "empty is empty"),
        ({"user": "same", "password": "password"}, "have the same name"),
    ],
)
def test_a_root_key_that_is_none_is_told(
    tmp_path: Path, arguments: list[str], files: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        s3server.read_keys(s3server.parser().parse_args([*arguments, *options(tmp_path, **files)]))


# The key that is switched off


def status(server: Server, name: str, to: str, **options: Any) -> Any:
    path = f"/minio/admin/v3/set-user-status?accessKey={name}&status={to}"
    return server("PUT", path, **options)


def test_a_training_key_that_is_disabled_is_refused_until_it_is_enabled(server: Server) -> None:
    assert status(server, TRAINING.access_key, "disabled").status_code == 200
    refused = server("GET", "/ray?list-type=2", credentials=TRAINING)
    assert (refused.status_code, "<Code>InvalidAccessKeyId</Code>" in refused.text) == (403, True)
    assert server("GET", "/ray?list-type=2").status_code == 200
    assert status(server, TRAINING.access_key, "enabled").status_code == 200
    assert server("GET", "/ray?list-type=2", credentials=TRAINING).status_code == 200


def test_only_the_root_key_switches_a_key_and_only_one_that_is_kept_to_a_bucket(server: Server) -> None:
    for name, to, options, code in (
        (TRAINING.access_key, "enabled", {"credentials": TRAINING}, 403),
        (CREDENTIALS.access_key, "disabled", {}, 404),
        ("nobody", "disabled", {}, 404),
        (TRAINING.access_key, "gone", {}, 400),
    ):
        assert status(server, name, to, **options).status_code == code
    assert server("GET", "/ray?list-type=2", credentials=TRAINING).status_code == 200


def test_minios_own_client_switches_the_key(server: Server) -> None:
    root = MinioAdministration(HOST, CREDENTIALS, http=WsgiPool(server))
    root.set_user_enabled(TRAINING.access_key, False)
    assert server("GET", "/ray?list-type=2", credentials=TRAINING).status_code == 403
    root.set_user_enabled(TRAINING.access_key, True)
    assert server("GET", "/ray?list-type=2", credentials=TRAINING).status_code == 200
    with pytest.raises(StoreError):
        root.set_user_enabled("nobody", False)
