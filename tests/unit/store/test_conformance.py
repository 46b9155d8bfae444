"""The S3 conformance test: what the stand-in server passes, and that a server which errs is found out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import urllib3

from lab.errors import StoreError
from lab.store.conformance import QUESTIONS, Question, SigningClient, examine
from lab.store.conformance.requests import values
from lab.topology import Check, Credentials
from tests.s3_basics import BASICS
from tests.unit.store.s3_wsgi import HOST, TRAINING, AnswerPool, Server, WsgiPool

OVER_HTTP = tuple(question for question in QUESTIONS if question.name != "pyarrow")
"""pyarrow needs a socket: tests/e2e asks it."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "objects")
    server("PUT", "/ray")
    server("PUT", "/ray/precious", b"precious")
    yield server
    server.die()


def findings(
    pool: Any,
    key: Credentials = TRAINING,
    bucket: str = "ray",
    questions: tuple[Question, ...] = OVER_HTTP,
) -> dict[str, Check]:
    client = SigningClient(HOST, key, pool=pool)
    return {finding.name: finding for finding in examine(client, bucket, questions=questions)}


def test_the_stand_in_passes_everything_with_the_training_key(server: Server) -> None:
    questions = (*OVER_HTTP, *BASICS)
    checks = findings(WsgiPool(server), questions=questions)
    assert {f.name: f.detail for f in checks.values() if f.outcome != "passed"} == {}
    assert len(checks) == len(questions) + 2


def test_nothing_is_left_and_nothing_else_is_touched(server: Server) -> None:
    findings(WsgiPool(server))
    assert server.keys() == ["precious"]
    assert server("GET", "/ray/precious").data == b"precious"


class Spoilt(WsgiPool):
    """A server that is the stand-in but for what `spoil` does to its requests and answers."""

    def __init__(self, server: Server, spoil: Callable[[str, str, Any, Any], Any]) -> None:
        super().__init__(server)
        self.spoil = spoil

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        answer = super().urlopen(method, url, *args, **kw)
        return self.spoil(method, url, kw, answer) or answer


def response(status: int, body: bytes = b"", **headers: str) -> Any:
    return urllib3.HTTPResponse(io.BytesIO(body), headers=headers, status=status)


def no_markers(method: str, url: str, kw: Any, answer: Any) -> Any:
    """As `rclone serve s3`: a directory marker is forgotten."""
    return response(404) if method == "HEAD" and url.endswith("/dir/") else None


def no_multipart(method: str, url: str, kw: Any, answer: Any) -> Any:
    body = b"<Error><Code>NotImplemented</Code></Error>"
    return response(501, body) if url.endswith("?uploads=") and "parts" in url else None


def fails_within_200(method: str, url: str, kw: Any, answer: Any) -> Any:
    body = b"<Error><Code>InternalError</Code></Error>"
    return response(200, body) if method == "POST" and "uploadId" in url else None


def anybody_writes(method: str, url: str, kw: Any, answer: Any) -> Any:
    return response(200) if answer.status == 403 and method == "PUT" else None


@pytest.mark.parametrize(
    ("spoil", "name", "words"),
    [
        (no_markers, "directory markers", "HEAD of a directory marker is answered with HTTP 404"),
        (no_multipart, "multipart upload", "HTTP 501 NotImplemented, not 200"),
        (fails_within_200, "multipart upload", "InternalError"),
        (anybody_writes, "wrong keys", "PUT with a wrong secret"),
    ],
)
def test_a_server_that_errs_is_found_out(
    server: Server, spoil: Callable[..., Any], name: str, words: str
) -> None:
    checks = findings(Spoilt(server, spoil))
    assert [f.name for f in checks.values() if f.outcome != "passed"] == [name]
    assert (checks[name].outcome, words in checks[name].detail) == ("failed", True)
    assert "docs/store.md" in checks[name].hint
    assert "needed for" in checks[name].detail


@pytest.mark.parametrize(
    ("key", "bucket", "words", "hint"),
    [
        (TRAINING, "other", "AccessDenied", "another bucket"),
        (Credentials("nobody", "x"), "ray", "InvalidAccessKeyId", "--s3-credentials"),
        (Credentials(TRAINING.access_key, "x"), "ray", "SignatureDoesNotMatch", "--s3-credentials"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_told_and_the_rest_is_skipped(
    server: Server, key: Credentials, bucket: str, words: str, hint: str
) -> None:
    checks = findings(WsgiPool(server), key, bucket)
    assert (checks["bucket"].outcome, words in checks["bucket"].detail) == ("failed", True)
    assert hint in checks["bucket"].hint
    assert {f.outcome for f in checks.values() if f.name != "bucket"} == {"skipped"}


def test_something_else_at_that_port_is_told() -> None:
    checks = findings(AnswerPool(lambda: response(200, b"<html>hello</html>")))
    assert checks["bucket"].outcome == "failed"
    assert "is it an S3 server?" in checks["bucket"].hint


def test_a_server_that_is_not_there_is_told() -> None:
    checks = findings(AnswerPool(ConnectionRefusedError(111, "Connection refused")))
    assert (checks["bucket"].outcome, "cannot be reached" in checks["bucket"].detail) == ("failed", True)


def test_a_server_that_goes_away_meanwhile_fails_the_rest_and_says_what_may_be_left(server: Server) -> None:
    calls = iter(range(1000))

    def gone(method: str, url: str, kw: Any, answer: Any) -> Any:
        if next(calls) >= 8:
            raise ConnectionRefusedError(111, "Connection refused")

    checks = findings(Spoilt(server, gone))
    assert checks["directory markers"].outcome == "passed"
    assert checks["wrong keys"].outcome == "failed"
    assert (checks["cleaned up"].outcome, "may be left" in checks["cleaned up"].detail) == ("warning", True)


def test_pyarrow_is_skipped_where_it_is_not_installed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (asked,) = (question for question in QUESTIONS if question.name == "pyarrow")
    client = SigningClient(HOST, TRAINING, pool=WsgiPool(server))
    checks = {f.name: f for f in examine(client, "ray", questions=(replace(asked),))}
    assert (checks["pyarrow"].outcome, "not installed" in checks["pyarrow"].detail) == ("skipped", True)


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "ftp://h", "http://h/path", ""])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(StoreError, match="not an address"):
        SigningClient(address, TRAINING)


def test_an_answers_text_is_read_whichever_way_its_signs_are_written() -> None:
    xml = "<Key>&amp;&#39;a&apos; &#34;b&quot; &lt;1&gt;</Key><Key>c</Key>"
    assert values(xml, "Key") == ["&'a' \"b\" <1>", "c"]
