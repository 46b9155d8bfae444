"""The gateway to an object store that is already there, as a WSGI application in the place of the lab's own.

Jobs have the lab's training key and know one bucket, `ray`, as in every lab. A request is verified as by the
stand-in store, signed anew with the other store's key, and forwarded to the bucket there; only this process
has that key. A body is held in memory, and its checksums are verified on both ways; objects are sent on as
they come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import botocore.credentials
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from werkzeug.wrappers import Request, Response

from lab.host.http import NoAnswerError, explained
from lab.host.serving import Environ, SlowRequestError, StartResponse
from lab.store.s3 import address
from lab.store.server.asked import HEALTH_PATH, S3Request, changes_user, received, refused, verified
from lab.store.server.auth import open_body
from lab.store.server.keys import (
    COPY_SOURCE,
    Key,
    Keyring,
    RefusalError,
    as_header,
    check_allowed,
    copied_from,
)
from lab.store.server.minio_api import METRICS_PATH, check_token
from lab.store.server.personal import check_deletion, check_personal
from lab.store.upstream import HEALTH_SECONDS, Upstream
from lab.topology import BUCKET

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

NAME = "gateway"

PIECE = 1 << 18
"""Bytes of an object that are sent on at once."""

CONTENT = frozenset(
    f"HTTP_{name}"
    for name in (
        *("CONTENT_MD5", "CONTENT_ENCODING", "CONTENT_DISPOSITION", "CONTENT_LANGUAGE", "CACHE_CONTROL"),
        *("EXPIRES", "RANGE", "IF_MATCH", "IF_NONE_MATCH", "IF_MODIFIED_SINCE", "IF_UNMODIFIED_SINCE"),
    )
)
OF_SIGNATURE = frozenset(
    f"HTTP_X_AMZ_{name}"
    for name in ("DATE", "CONTENT_SHA256", "DECODED_CONTENT_LENGTH", "TRAILER", "SECURITY_TOKEN")
)
"""Headers that only the client's signature needed."""

ACL, GRANT = "HTTP_X_AMZ_ACL", "HTTP_X_AMZ_GRANT_"

UNPACK = "HTTP_X_AMZ_META_SNOWBALL_AUTO_EXTRACT"
"""Header by which MinIO unpacks an archive wherever the key reaches: the lab's reaches all of the bucket."""

OF_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "date"})

REDIRECTIONS = (301, 302, 303, 307, 308)

KEY_PROBLEMS = frozenset(
    {
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed"),
        *("AuthorizationHeaderMalformed", "XAdminUserNotFound"),
    }
)
"""Answers of the other store that are about its own key, which no client of the gateway has. The last is
versitygw's, with 404: to a training it would say that there is no checkpoint."""

ONE_BUCKET = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>raylab</ID></Owner>'
    f"<Buckets><Bucket><Name>{BUCKET}</Name><CreationDate>2026-01-01T00:00:00.000Z</CreationDate></Bucket>"
    "</Buckets></ListAllMyBucketsResult>"
)


class Gateway:
    """The WSGI application."""

    def __init__(
        self,
        upstream: Upstream,
        keys: Keyring,
        log: Callable[[str], None],
        *,
        pool: PoolManager | None = None,
    ) -> None:
        """`log` gets one line per error; `pool` is the urllib3 pool to use. Asks nothing yet."""
        self._upstream, self._keys, self._log = upstream, keys, log
        self._pool = pool or upstream.pool()
        key = upstream.credentials
        self._key = botocore.credentials.Credentials(key.access_key, key.secret_key)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        try:
            response = self._answer(request)
        except RefusalError as error:
            response = refused(request, self._log, error)
        except SlowRequestError as error:
            response = refused(request, self._log, RefusalError(400, "RequestTimeout", str(error)))
        except NoAnswerError as error:
            response = refused(request, self._log, RefusalError(503, "ServiceUnavailable", self._gone(error)))
        return response(environ, start_response)

    def _gone(self, error: NoAnswerError) -> str:
        return f"the object store behind it, {self._upstream.url}, cannot be reached: {error}"

    def _answer(self, request: Request) -> Response:
        path = request.environ.get("PATH_INFO")
        if path == HEALTH_PATH and request.method in ("GET", "HEAD"):
            return self._health()
        if path == METRICS_PATH and request.method == "GET":  # the other store's are not the lab's to read
            check_token(self._keys, request.headers.get("Authorization", ""))
            return Response("", content_type="text/plain; version=0.0.4; charset=utf-8")
        asked = verified(request, self._keys, datetime.now(timezone.utc))
        if (changed_key := changes_user(request, asked, self._keys)) is not None:
            return changed_key
        if not asked.bucket and request.method in ("GET", "HEAD"):
            return Response(ONE_BUCKET, mimetype="application/xml")
        source = copied_from(request.environ)
        one = Key(asked.signature.key.credentials, BUCKET)  # the root key, too: what is beside it is others'
        check_allowed(one, request.method, asked.bucket, asked.key, asked.parameters, source[0])
        check_personal(asked, request.method, source[1])
        _check_stays(asked.key, source[1])
        body = open_body(asked.signature, request.environ, received(request.stream))
        check_deletion(asked, body)
        headers = _forwarded(request.environ)
        if source[0]:
            headers["x-amz-copy-source"] = as_header(self._upstream.bucket, source[1])
        reply = self._ask(request.method, asked.key, asked.pairs, body, headers)
        return self._passed_on(request, asked, reply)

    def _ask(
        self,
        method: str,
        key: str,
        query: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> BaseHTTPResponse:
        """The other store's answer, of which only the headers have come. Raises NoAnswerError."""
        name = quote(key.encode(errors="surrogateescape"), safe="/~")
        url = address(self._upstream.url, self._upstream.bucket, f"/{name}" if key else "")
        text = urlencode(sorted(query), quote_via=quote, safe="~")
        url = f"{url}?{text}" if text else url
        signed = AWSRequest(method=method, url=url, data=body, headers=dict(headers or {}))
        S3SigV4Auth(self._key, "s3", self._upstream.region).add_auth(signed)
        with explained():
            reply: BaseHTTPResponse = self._pool.request(
                method,
                url,
                body=body or None,
                headers={n: str(value).encode().decode("latin-1") for n, value in signed.headers.items()},
                redirect=False,
                preload_content=False,
                decode_content=False,
                **options,
            )
        return reply

    def _passed_on(self, request: Request, asked: S3Request, reply: BaseHTTPResponse) -> Response:
        """The answer as the lab's own store would have given it."""
        headers = [(n, v) for n, v in reply.headers.items() if n.lower() not in OF_CONNECTION]
        if reply.status in REDIRECTIONS:  # a job has no business there
            reply.release_conn()
            to = reply.headers.get("Location") or reply.headers.get("x-amz-bucket-region") or "elsewhere"
            detail = f"{self._upstream.url} sends the lab to {to} (HTTP {reply.status})"
            raise RefusalError(503, "ServiceUnavailable", detail)
        of_object = all(name.startswith("response-") or name == "x-id" for name in asked.parameters)
        if reply.status < 300 and request.method == "GET" and asked.key and of_object:
            return Response(_pieces(reply), reply.status, headers)
        if request.method == "HEAD":
            reply.release_conn()
            return Response(status=reply.status, headers=headers)
        data = _whole(reply)
        if reply.status >= 300 and (problem := _code(data)) in KEY_PROBLEMS:
            raise RefusalError(403, "AccessDenied", f"{self._upstream.url} refuses the lab's key: {problem}")
        for tag in ("Name", "Bucket", "BucketName"):
            there, here = (f"<{tag}>{name}</{tag}>".encode() for name in (self._upstream.bucket, BUCKET))
            data = data.replace(there, here)
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        return Response(data, reply.status, kept)

    def _health(self) -> Response:
        """A page of health: 503 where the other store does not give the bucket, and why."""
        where = f"{self._upstream.url}, bucket {self._upstream.bucket}"
        asked = [("list-type", "2"), ("max-keys", "1")]
        try:
            reply = self._ask("GET", "", asked, retries=False, timeout=HEALTH_SECONDS)
            data = _whole(reply)
        except NoAnswerError as error:
            detail, status = self._gone(error), 503
        else:
            status = 200 if reply.status == 200 else 503
            server = reply.headers.get("Server", "")
            suffix = f" ({server})" if server else ""
            suffix = suffix if status == 200 else f": HTTP {reply.status} {_code(data)}".rstrip()
            detail = f"gateway to {where}{suffix}"
        page = {"server": NAME, "version": f"to {self._upstream.url}", "detail": detail}
        return Response(json.dumps(page), status, mimetype="application/json")


def _check_stays(*keys: str) -> None:
    """Refuse a key that a server or proxy could take for one of another bucket. Raises RefusalError."""
    if any(part in (".", "..") for key in keys for part in key.split("/")):
        raise RefusalError(400, "InvalidArgument", "no part of a key between slashes may be `.` or `..` here")


def _forwarded(environ: Environ) -> dict[str, str]:
    """The headers that mean something to the other store, as text.

    Raises RefusalError for those that would open an object to others, and for the one that would write
    objects of other names: no key of jobs may do that.
    """
    if UNPACK in environ:
        raise RefusalError(403, "AccessDenied", "no archive is unpacked here: send its objects one by one")
    if environ.get(ACL, "private") != "private" or any(name.startswith(GRANT) for name in environ):
        raise RefusalError(403, "AccessDenied", "the key of jobs may not give others access to an object")
    headers = {"Content-Type": environ["CONTENT_TYPE"]} if environ.get("CONTENT_TYPE") else {}
    for variable, value in environ.items():
        own = variable.startswith("HTTP_X_AMZ_") and variable not in OF_SIGNATURE and variable != COPY_SOURCE
        if own or variable in CONTENT:
            headers[variable[5:].replace("_", "-").lower()] = value
    return {name: _text(value) for name, value in headers.items()}


def _text(value: str) -> str:
    try:
        return value.encode("latin-1").decode()  # WSGI's text is latin-1
    except UnicodeError:
        return value


def _whole(reply: BaseHTTPResponse) -> bytes:
    """The body of an answer. Raises NoAnswerError."""
    with explained():
        return bytes(reply.read())


def _code(data: bytes) -> str:
    """The code of an error; empty where there is none."""
    code = re.search(rb"<Code>(\w+)</Code>", data)
    return code[1].decode() if code else ""


def _pieces(reply: BaseHTTPResponse) -> Iterator[bytes]:
    try:
        yield from reply.stream(PIECE, decode_content=False)
    finally:
        reply.close()
        reply.release_conn()
