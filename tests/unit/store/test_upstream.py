"""Whether a lab can use an object store that is already there, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import urllib3

from lab.errors import CertificateError, LabError, RefusedError, StoreError, UsageError
from lab.store import upstream
from lab.store.base import UnreachableStoreError
from lab.store.upstream import Upstream
from lab.topology import Credentials
from tests.fakes.host import FakeClock
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, AnswerPool, Server, WsgiPool

THERE = Upstream(HOST, "course", CREDENTIALS)


def key_file(folder: Path, mode: int = 0o600) -> Path:
    path = folder / "key.ini"
    path.write_text("[default]\naws_access_key_id = AKIA\naws_secret_access_key = very-secret\n")
    path.chmod(mode)
    return path


def named(folder: Path, url: str = HOST, **environ: str) -> Upstream:
    return upstream.named(url, "course", key_file(folder), None, environ)


def refuse(_: str) -> None:
    raise RefusedError("not confirmed")


def buckets(server: Server) -> list[str]:
    return [part.split("<")[0] for part in server("GET", "/").text.split("<Name>")[1:]]


class Denying(WsgiPool):
    """A pool of a server that lets nobody do this."""

    def __init__(self, server: Server, method: str) -> None:
        super().__init__(server)
        self.method = method

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        if method == self.method and "/.raylab/" in url:
            return urllib3.HTTPResponse(b"<Error><Code>AccessDenied</Code></Error>", status=403)
        return super().urlopen(method, url, *args, **kw)


def test_what_a_person_names_is_read_and_kept_where_only_they_can_read_it(tmp_path: Path) -> None:
    given = named(tmp_path, f"{HOST}/", AWS_REGION="eu-central-1")
    assert given == Upstream(HOST, "course", Credentials("AKIA", "very-secret"), "eu-central-1")
    upstream.save(tmp_path / "secrets" / "kept", given)
    assert (tmp_path / "secrets" / "kept").stat().st_mode & 0o777 == 0o600
    assert upstream.load(tmp_path / "secrets" / "kept") == given
    assert "very-secret" not in repr(given)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(RefusedError, match=r"others may read .*key\.ini") as caught:
        upstream.named(HOST, "course", key_file(tmp_path, mode), None, {})
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:9000", "ftp://h", "http://", "http://h/path", "http://h?x=1", "http://AKIA:very-secret@h"],
)
def test_what_is_no_address_is_a_mistake_in_the_command(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        named(tmp_path, url)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("{}")
    for name in ("kept", "missing"):
        with pytest.raises(UsageError, match="names no object store"):
            upstream.load(tmp_path / name)


def test_certificates_that_are_none_are_told() -> None:
    with pytest.raises(UsageError, match="--s3-ca"):
        Upstream("https://h", "course", CREDENTIALS, ca="no certificate").pool()


def test_a_bucket_that_is_there_is_used_and_left_as_it_was(server: Server) -> None:
    server("PUT", "/course")
    upstream.check(THERE, refuse, pool=WsgiPool(server))
    assert server.keys("course") == []


def test_a_missing_bucket_is_made_by_consent_only(server: Server) -> None:
    asked: list[str] = []
    with pytest.raises(RefusedError):
        upstream.check(THERE, refuse, pool=WsgiPool(server))
    assert buckets(server) == []
    upstream.check(THERE, asked.append, pool=WsgiPool(server))
    assert (buckets(server), asked) == (["course"], [f"{HOST} has no bucket course"])


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (Credentials("nobody", "x"), "InvalidAccessKeyId"),
        (Credentials(CREDENTIALS.access_key, "wrong"), "SignatureDoesNotMatch"),
        (TRAINING, "AccessDenied"),
    ],
)
def test_a_key_that_does_not_open_the_bucket_is_told_and_nothing_is_made(
    server: Server, key: Credentials, code: str
) -> None:
    with pytest.raises(StoreError, match=code) as caught:
        upstream.check(Upstream(HOST, "course", key), refuse, pool=WsgiPool(server))
    assert caught.value.hint
    assert buckets(server) == []


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_a_key_that_may_only_look_is_told(server: Server, method: str) -> None:
    server("PUT", "/course")
    with pytest.raises(StoreError, match=f"course, but {method} .*403"):
        upstream.check(THERE, refuse, pool=Denying(server, method))


def test_a_store_that_does_not_answer_is_told() -> None:
    gone = AnswerPool(urllib3.exceptions.ProtocolError("gone"))
    with pytest.raises(UnreachableStoreError, match="cannot be reached") as caught:
        upstream.check(THERE, refuse, pool=gone)
    assert isinstance(caught.value, LabError)
    assert caught.value.exit_code == 13


def test_a_certificate_that_is_not_trusted_is_told_and_how_to_trust_it() -> None:
    error = urllib3.exceptions.SSLError(
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1018)"
    )
    with pytest.raises(CertificateError, match="self-signed") as caught:
        upstream.check(THERE, refuse, pool=AnswerPool(error))
    assert (caught.value.exit_code, "--s3-ca" in caught.value.hint) == (27, True)


@pytest.mark.parametrize(
    ("status", "headers", "body", "message", "hint"),
    [
        (307, {"Location": "https://eu.example.org/course?x=1"}, "", "HTTP 307", "--s3 https://eu.example.org"),
        (301, {}, "<Code>PermanentRedirect</Code><Endpoint>eu.example.org</Endpoint>",
         r"HTTP 301 \(PermanentRedirect\) .* elsewhere", "--s3 https://eu.example.org"),
        (301, {"x-amz-bucket-region": "eu-central-1"}, "", "HTTP 301", "AWS_REGION=eu-central-1"),
        (400, {}, "<Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region>",
         "HTTP 400", "AWS_REGION=eu-central-1"),
        (403, {}, "<html>no</html>", r"HTTP 403 \(no S3 answer\)", "is it an S3 server"),
        (404, {}, "", r"HTTP 404 \(no S3 answer\)", "is it an S3 server"),
        (200, {}, "<html>hello</html>", r"HTTP 200 \(no S3 answer\)", "is it an S3 server"),
        (503, {}, "<Code>SlowDown</Code>", "SlowDown", "less busy"),
    ],
)  # fmt: skip
def test_a_server_that_answers_otherwise_is_told(
    status: int, headers: dict[str, str], body: str, message: str, hint: str
) -> None:
    answer = urllib3.HTTPResponse(f"<Error>{body}</Error>".encode(), headers=headers, status=status)
    with pytest.raises(StoreError, match=message) as caught:
        upstream.check(THERE, refuse, pool=AnswerPool(answer))
    assert hint in caught.value.hint


def test_a_store_that_is_too_slow_for_a_lab_is_told_before_it_starts(server: Server) -> None:
    clock = FakeClock()

    class Slow(WsgiPool):
        def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
            clock.sleep(1.8)
            return super().urlopen(method, url, *args, **kw)

    server("PUT", "/course")
    with pytest.raises(StoreError, match=r"takes 1\.8 s.* 1\.5 s"):
        upstream.check(THERE, refuse, pool=Slow(server), clock=clock)


def test_a_store_may_want_the_bucket_in_its_host() -> None:
    there = Upstream("https://{bucket}.s3.example.org", "course", CREDENTIALS)
    pool = AnswerPool(urllib3.HTTPResponse(b"<Error><Code>AccessDenied</Code></Error>", status=403))
    with pytest.raises(StoreError, match="AccessDenied"):
        upstream.check(there, refuse, pool=pool)
    assert pool.asked == ["https://course.s3.example.org/?list-type=2&max-keys=1"]


def test_a_clock_that_is_wrong_is_told(server: Server) -> None:
    from datetime import timedelta

    there = Server(server.disk.root.parent / "late", now=server.now() + timedelta(hours=2))
    try:
        with pytest.raises(StoreError, match="RequestTimeTooSkewed") as caught:
            upstream.check(THERE, refuse, pool=WsgiPool(there))
    finally:
        there.die()
    assert "clocks" in caught.value.hint
