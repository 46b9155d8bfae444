"""moto's S3 as a WSGI application that keeps its objects on disk and answers only signed requests.

A change is first made in moto, then on disk, and only then acknowledged. moto's models are not made for
threads, so one request at a time goes through them; bodies are received, objects are sent, and the disk is
waited for outside of that. Meanwhile other requests for that object wait (`_holding`).

What could not survive a restart (tags, policies, versions, locks) is refused, not forgotten.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import IO
from xml.parsers.expat import ExpatError
from xml.sax.saxutils import escape

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from lab.host.serving import Environ, SlowRequestError, StartResponse
from lab.store.server import checks
from lab.store.server.auth import is_of_signature, open_body, verified
from lab.store.server.disk import Disk, StorageError
from lab.store.server.keys import (
    COPY_SOURCE,
    Keyring,
    RefusalError,
    as_header,
    check_allowed,
    copied_from,
    only_bucket,
)
from lab.store.server.metrics import METRICS_PATH, answer, check_token
from lab.store.server.moto import VERSION, MotoStore
from lab.store.server.personal import check_deletion, check_personal

SERVER = f"raylab-standin (moto {VERSION})"
IDENTITY = "AWS4-HMAC-SHA256 Credential=raylab/20260101/us-east-1/s3/aws4_request, Signature=0"
"""The identity that moto sees in every verified request."""

HEALTH_PATH = "/raylab/health"

STATUS_PATH = "/minio/admin/v3/set-user-status"
"""Where MinIO's admin API disables and enables a key; the root key alone may."""

RECEIVED_AT_ONCE = 1 << 20
"""Bytes of a body."""

STRIPES = 64
"""Locks that objects share by their hashes."""


class S3App:
    """The WSGI application. One process can hold one: moto's state is global to the process."""

    def __init__(
        self,
        disk: Disk,
        keys: Keyring,
        log: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        """Starts with what `disk` holds. `log` gets one line per error."""
        self._keys, self._log, self._now = keys, log, now
        self.lock = threading.Lock()
        """Held while a change is made: who holds it can end the process between two changes."""
        self._disk, self._moto = disk, MotoStore(disk, self._let_go)
        self._stripes: Sequence[contextlib.AbstractContextManager[object]] = [
            threading.Lock() for _ in range(STRIPES)
        ]

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        if environ.get("PATH_INFO") == HEALTH_PATH and request.method in ("GET", "HEAD"):
            health = json.dumps({"server": "moto", "version": VERSION})
            headers = {"Server": SERVER}
            return Response(health, headers=headers, mimetype="application/json")(environ, start_response)
        try:
            response = self._metrics(request) or self._answer(request)
        except RefusalError as error:
            response = _refused(request, self._log, error)
        except StorageError as error:
            response = _refused(request, self._log, RefusalError(507, "StorageFull", str(error)))
        except ConnectionError:  # the client went away
            raise
        except SlowRequestError as error:
            response = _refused(request, self._log, RefusalError(400, "RequestTimeout", str(error)))
        except OSError as error:
            response = _refused(request, self._log, _os_refusal(request.method, error))
        except ExpatError:
            response = _refused(request, self._log, RefusalError(400, "MalformedXML", "the body is not XML"))
        except NotImplementedError as error:
            response = _refused(request, self._log, RefusalError(501, "NotImplemented", str(error)))
        except Exception as error:  # moto raises whatever comes, as a rule because of what it was asked
            message = f"moto does not understand the request ({type(error).__name__}: {error})"
            response = _refused(request, self._log, RefusalError(400, "InvalidRequest", message))
        response.headers["Server"] = SERVER
        return response(environ, start_response)

    @contextlib.contextmanager
    def _let_go(self) -> Iterator[None]:
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    @contextlib.contextmanager
    def _holding(self, *objects: tuple[str, str]) -> Iterator[None]:
        """Keep these objects, each a bucket and a key, from others; without a key every object."""
        every = not all(key for _, key in objects)
        numbers = range(STRIPES) if every else sorted({hash(name) % STRIPES for name in objects})
        with contextlib.ExitStack() as held:
            for number in numbers:
                held.enter_context(self._stripes[number])
            yield

    def _metrics(self, request: Request) -> Response | None:
        if request.environ.get("PATH_INFO") != METRICS_PATH or request.method != "GET":
            return None
        check_token(self._keys, request.headers.get("Authorization", ""))
        with self.lock:
            objects, size = self._moto.size()
        return answer(objects, size, shutil.disk_usage(self._disk.tmp).free)

    def _answer(self, request: Request) -> Response:
        asked = verified(request, self._keys, self._now())
        signature, bucket, key, query = asked.signature, asked.bucket, asked.key, asked.query
        plain = asked.parameters
        checks.check_query(query)
        source = copied_from(request.environ)
        check_allowed(signature.key, request.method, bucket, key, plain, source[0])
        if asked.path == STATUS_PATH and request.method == "PUT":
            name, status = (query.get(parameter, ("",))[0] for parameter in ("accessKey", "status"))
            self._keys.set_status(name, status)
            return Response()
        check_personal(asked, request.method, source[1])
        body = open_body(signature, request.environ, _received(request.stream))
        check_deletion(asked, body)
        environ = _for_moto(request.environ, body)
        if source[0]:
            environ[COPY_SOURCE] = as_header(*source)
        checks.say_checksum(environ)

        if request.method in ("GET", "HEAD", "OPTIONS"):
            checks.check_asked(key, plain)
            whole_object = all(name.startswith("response-") or name == "x-id" for name in plain)
            if key and request.method == "GET" and whole_object:
                return self._send_object(request, environ, bucket, key)
            if key and "partNumber" in plain and "uploadId" not in plain:
                raise RefusalError(501, "NotImplemented", "this store keeps no parts of an object")
            with self._holding(*[(bucket, key)] if key else ()), self.lock:
                self._check_upload(request.method, bucket, key, query)
                response = self._ask(environ, bucket, key)
            if (
                not bucket
                and signature.key.bucket
                and request.method == "GET"
                and response.status_code == 200
            ):
                response.set_data(only_bucket(response.get_data(), signature.key.bucket))
            return response
        checks.check_keepable(request.environ, bucket, key, plain)
        if request.method == "POST" and not key and "delete" not in plain:
            raise RefusalError(501, "NotImplemented", "this store takes no uploads by HTML form")
        quietly = not key and "delete" in plain and checks.deletes_quietly(body)
        with self._holding((bucket, key), *[source] if source[0] else ()):
            changed = False
            with self.lock:
                self._check_upload(request.method, bucket, key, query)
                checks.check_copied(environ, self._moto.etag(*source))
                response = self._ask(environ, bucket, key)
                if response.status_code < 300:
                    changed = self._moto.save(bucket, key, everything="delete" in plain)
            if changed:
                self._disk.settle(bucket)
        if quietly:
            response.set_data(checks.without_deleted(response.get_data()))
        return response

    def _ask(self, environ: Environ, bucket: str, key: str) -> Response:
        """moto's answer; it has objects of one version only."""
        checks.say_conditions(environ, self._moto.etag(bucket, key))
        response = self._moto.ask(environ)
        response.headers.pop("x-amz-version-id", None)
        return response

    def _check_upload(self, method: str, bucket: str, key: str, query: Mapping[str, Sequence[str]]) -> None:
        """Refuse an upload in parts that is none, or not of this key. Raises RefusalError."""
        for upload in query.get("uploadId", ()):
            again = method == "POST" and self._moto.completed(bucket, key, upload)
            if not again and not self._moto.has_upload(bucket, key, upload):
                what = "no upload of this key: it was completed, aborted, or never begun"
                raise RefusalError(404, "NoSuchUpload", what)

    def _send_object(self, request: Request, environ: Environ, bucket: str, key: str) -> Response:
        """moto decides and makes the headers; the data are sent from the file, all or the range asked for."""
        whole = {name: value for name, value in environ.items() if name != "HTTP_RANGE"}
        with self._holding((bucket, key)), self.lock:
            buffer = self._moto.find(bucket, key)
            if buffer is None:
                return self._moto.ask(environ)
            buffer.muted = True
            try:
                response = self._ask(whole, bucket, key)
            finally:
                buffer.muted = False
            if response.status_code != 200:
                return response
            stream = buffer.stored.open()
        size = buffer.stored.record.size
        start, end, status = 0, size, 200
        try:
            part = checks.read_range(request.headers.get("Range", ""), size)
        except RefusalError:
            stream.close()
            raise
        if part is not None:
            (start, end), status = part, 206
        stream.seek(start, io.SEEK_CUR)
        data = Response(_pieces(stream, end - start), status)
        data.headers = response.headers
        data.content_length = end - start
        if status == 206:
            data.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
            for name in [n for n, _ in data.headers if n.lower().startswith("x-amz-checksum-")]:
                del data.headers[name]  # it is the whole object's
        return data


def _received(stream: IO[bytes]) -> bytes:
    """A request's body. werkzeug's own `read()` asks the socket for 8 KiB at a time."""
    return b"".join(iter(lambda: stream.read(RECEIVED_AT_ONCE), b""))


def _refused(request: Request, log: Callable[[str], None], error: RefusalError) -> Response:
    """The answer to a request that is refused, once the rest of it has come; `log` gets a line."""
    log(f"{request.method} {request.path}: {error.status} {error.code}: {error.message}")
    with contextlib.suppress(OSError, HTTPException):  # slow, malformed, or gone
        while request.stream.read(1 << 16):  # a client that is still sending would not read the answer
            pass
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
        f"<Resource>{escape(request.path)}</Resource><RequestId>0</RequestId></Error>"
    )
    return Response(text, error.status, mimetype="application/xml")


def _for_moto(environ: Environ, body: bytes) -> Environ:
    """The verified request without what only the signature needed; moto gets one identity and one region."""
    kept = {name: v for name, v in environ.items() if not name.startswith("HTTP_X_MOTO_")}
    for name in ("HTTP_TRANSFER_ENCODING", "HTTP_CONTENT_MD5"):
        kept.pop(name, None)
    query = environ.get("QUERY_STRING", "")
    query = "&".join(part for part in query.split("&") if not is_of_signature(part.partition("=")[0]))
    path = str(environ.get("RAW_URI", "/")).split("?", 1)[0]
    if "form" in environ.get("CONTENT_TYPE", ""):  # moto would parse it, and then find no body
        kept["CONTENT_TYPE"] = "binary/octet-stream"
    kept.update(
        {
            "QUERY_STRING": query,
            "RAW_URI": f"{path}?{query}" if query else path,
            "HTTP_AUTHORIZATION": IDENTITY,
            "HTTP_HOST": "localhost",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.input_terminated": True,  # or werkzeug would copy it piece by piece
        }
    )
    return kept


def _pieces(stream: IO[bytes], left: int) -> Iterator[bytes]:
    with stream:
        while left > 0 and (data := stream.read(min(left, 1 << 18))):
            left -= len(data)
            yield data


def _os_refusal(method: str, error: OSError) -> RefusalError:
    if method in ("PUT", "POST", "DELETE") and error.errno is not None:
        return RefusalError(507, "StorageFull", str(StorageError(error)))
    return RefusalError(500, "InternalError", f"{error.strerror or error}")
