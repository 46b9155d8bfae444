"""The HTTP client: pools, requests, and the reasons for which no answer comes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import urllib3

TIMEOUT_SECONDS = 2.0
"""Deadline of a request to a service of a lab, unless a caller has another."""

POOL_CONNECT_SECONDS = 3.0
POOL_READ_SECONDS = 20.0
POOL_CONNECTIONS = 10
"""Connections to one server that are kept; more are made where they are needed, and closed."""


UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's word for a certificate that is refused."""


UNREAD_HEADER = "X-Raylab-Unread"
"""Header of an answer that was given before the whole body of its request had come."""

REFUSED_HEADER = "x-raylab-refused"
"""Header of an answer 403 that refuses the act, and not the token, which was right."""

ATTEMPTS_HEADER = "x-raylab-attempts"
"""Header of a request to the gateway of a class for which a job is one attempt, as it is for Ray."""


class NoAnswerError(Exception):
    """No answer came; the message says why, in a few words."""

    def __init__(self, why: str, *, nobody: bool = False, untrusted: bool = False) -> None:
        """`nobody`: none takes connections there, or one hangs up at once, as a proxy does for a process
        that is not there. `untrusted`: the certificate of whoever answers is refused.
        """
        super().__init__(why)
        self.nobody, self.untrusted = nobody, untrusted


@dataclass(frozen=True)
class Reply:
    """An HTTP answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def make_pool(retries: int = 0) -> urllib3.PoolManager:
    """A urllib3 pool that soon gives up where nobody answers, and keeps connections for further requests."""
    import urllib3

    return urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=POOL_CONNECT_SECONDS, read=POOL_READ_SECONDS),
        retries=urllib3.Retry(retries, read=min(1, retries), redirect=0, status=0, backoff_factor=0.2),
        maxsize=POOL_CONNECTIONS,
    )


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float | None = TIMEOUT_SECONDS,
    pool: urllib3.PoolManager | None = None,
) -> Reply:
    """Ask, and return the answer whatever its status; a redirection is an answer, too.

    `timeout` in seconds is that of the whole request; None leaves it to `pool`. Raises NoAnswerError.
    """
    import urllib3

    if pool is None:
        with make_pool() as own:
            return request(method, url, headers=headers, body=body, timeout=timeout, pool=own)
    options: dict[str, Any] = {} if timeout is None else {"timeout": urllib3.Timeout(timeout)}
    with explained():
        response = pool.request(
            method, url, body=body, headers=dict(headers or {}), redirect=False, **options
        )
        names = {name.lower(): value for name, value in response.headers.items()}
        return Reply(int(response.status), names, response.data)


def get(url: str, headers: Mapping[str, str] | None = None) -> Reply | None:
    """The answer to a GET, or None when nothing answers."""
    try:
        return request("GET", url, headers=headers)
    except NoAnswerError:
        return None


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token; none without one."""
    return {"Authorization": f"Bearer {token}"} if token else {}


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn what urllib3 and the system raise instead of an answer into NoAnswerError."""
    from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError

    try:
        yield
    except (HTTPError, OSError) as error:
        cause = _cause(error)
        nobody = isinstance(cause, (NewConnectionError, ProtocolError))
        raise NoAnswerError(reason(error), nobody=nobody, untrusted=UNTRUSTED in str(cause)) from error


def _cause(error: BaseException) -> BaseException:
    """The error itself, without urllib3's wrapping."""
    from urllib3.exceptions import MaxRetryError

    return error.reason if isinstance(error, MaxRetryError) and error.reason is not None else error


def reason(error: BaseException) -> str:
    """The reason why there is no answer, in a few words and without urllib3's wrapping."""
    from urllib3 import exceptions as e

    error = _cause(error)
    limit = re.search(r"timeout=([\d.]+)", str(error))
    within = f"within {round(float(limit[1]), 1):g} s" if limit else "in time"
    system = getattr(error.__cause__ or error.__context__ or error, "strerror", None)
    detail = re.search(rf"{UNTRUSTED}\] certificate verify failed: (.*?)\.? \(_ssl", str(error))
    said = f": {detail[1]}" if detail else ""
    tls = f"its certificate is not valid{said}" if UNTRUSTED in str(error) else "it does not speak TLS"
    words = (
        (e.NameResolutionError, "the host name is unknown"),
        (e.ProxyError, "the proxy refuses the connection"),
        (e.LocationValueError, "that is not an address"),
        (e.NewConnectionError, str(system or "nothing listens there")),
        (e.ConnectTimeoutError, f"no connection {within}"),
        (e.ReadTimeoutError, f"no answer {within}"),
        (e.SSLError, tls),
        (e.ProtocolError, "the connection broke"),
    )
    known = next((text for kind, text in words if isinstance(error, kind)), "")
    return known or str(system or first_line(error))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, of at most 200 characters."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
