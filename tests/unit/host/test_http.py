"""The HTTP client: what a request is, and the words for an answer that does not come."""

from __future__ import annotations

from typing import Any

import pytest
import urllib3
from urllib3 import exceptions as e
from urllib3.connection import HTTPConnection

from lab.host import http

URL = "http://127.0.0.1:9000/"
CONNECTION = HTTPConnection("127.0.0.1", 9000)
POOL = urllib3.HTTPConnectionPool("127.0.0.1", 9000)


class Pool(urllib3.PoolManager):
    """Answers every request with `answer`, or raises it."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def urlopen(self, method: str, url: str, *_: Any, **options: Any) -> Any:
        self.asked.append((method, url, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_an_answer_is_status_headers_and_body_whatever_it_says() -> None:
    pool = Pool(urllib3.HTTPResponse(b"elsewhere", {"Location": "/x"}, 302))
    reply = http.request("POST", URL, headers=http.bearer("t"), body=b"data", timeout=4, pool=pool)
    assert reply == http.Reply(302, {"location": "/x"}, b"elsewhere")
    ((method, url, options),) = pool.asked
    assert (method, url, options["body"], options["redirect"]) == ("POST", URL, b"data", False)
    assert options["headers"]["Authorization"] == "Bearer t"
    assert options["timeout"].total == 4


def test_without_a_timeout_the_pools_own_holds() -> None:
    pool = Pool(urllib3.HTTPResponse(b"", status=200))
    http.request("GET", URL, timeout=None, pool=pool)
    assert "timeout" not in pool.asked[0][2]


def test_without_a_token_nothing_is_sent_for_it() -> None:
    assert http.bearer("") == {}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            e.MaxRetryError(POOL, "/", caused(e.NewConnectionError(CONNECTION, "no"), OSError(1, "refused"))),
            "refused",
        ),
        (e.NewConnectionError(CONNECTION, "failed"), "nothing listens there"),
        (e.NameResolutionError("nowhere", CONNECTION, OSError(-2)), "the host name is unknown"),  # type: ignore[arg-type]
        (e.ConnectTimeoutError(POOL, "timed out. (connect timeout=3.0)"), "no connection within 3 s"),
        (e.ReadTimeoutError(POOL, "/", "Read timed out. (read timeout=1.998)"), "no answer within 2 s"),
        (e.ReadTimeoutError(POOL, "/", "Read timed out."), "no answer in time"),
        (e.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), "its certificate is not valid"),
        (
            e.SSLError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, "
                "certificate is not valid for 'h'. (_ssl.c:1018)"
            ),
            "its certificate is not valid: Hostname mismatch, certificate is not valid for 'h'",
        ),
        (e.SSLError("[SSL: WRONG_VERSION_NUMBER]"), "it does not speak TLS"),
        (e.ProxyError("no", OSError("no")), "the proxy refuses the connection"),
        (e.ProtocolError("Connection aborted."), "the connection broke"),
        (e.LocationParseError("http://[::1"), "that is not an address"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (OSError("two\nlines"), "two"),
    ],
)  # fmt: skip
def test_why_no_answer_came_is_said_in_a_few_words(error: Exception, words: str) -> None:
    with pytest.raises(http.NoAnswerError) as caught:
        http.request("GET", URL, pool=Pool(error))
    assert str(caught.value) == words


def test_a_pool_gives_up_at_once_unless_retries_are_asked_for() -> None:
    counts = [http.make_pool(n).connection_pool_kw["retries"] for n in (0, 2)]
    assert [(count.total, count.read, count.redirect) for count in counts] == [(0, 0, 0), (2, 1, 0)]
