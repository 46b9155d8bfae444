"""The stand-in S3 server without a socket: requests are signed for real and handed to the application."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import unescape

import botocore.credentials
import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from werkzeug.test import Client, TestResponse

from lab.store.server.app import S3App
from lab.store.server.disk import Disk
from lab.store.server.keys import Key, Keyring
from lab.topology import BUCKET, Credentials

CREDENTIALS = Credentials("labkey", "labsecret")
"""The root key."""
TRAINING = Credentials("trainingkey", "trainingsecret")
"""May reach only BUCKET."""
HOST = "http://127.0.0.1:9000"


def signer(kind: Any, credentials: Credentials = CREDENTIALS, **options: Any) -> Any:
    """One of botocore's signers, as a client uses it."""
    key = botocore.credentials.Credentials(credentials.access_key, credentials.secret_key)
    return kind(key, "s3", "us-east-1", **options)


class Server:
    """One run of the server over a folder. `log` holds the lines it logged."""

    def __init__(self, root: Path, now: datetime | None = None) -> None:
        self.log: list[str] = []
        self.flushed: list[int] = []
        """Inodes of the files and folders that were flushed to the disk."""
        self.flush_fails = False
        self.before_flush: Callable[[], None] | None = None
        self.disk = Disk(root, self.log.append, self._fsync)
        keys = Keyring(Key(CREDENTIALS), Key(TRAINING, BUCKET))
        clock: Callable[[], datetime] = (lambda: now) if now else (lambda: datetime.now(timezone.utc))
        self.now = clock
        self.app = S3App(self.disk, keys, self.log.append, clock)

    def _fsync(self, descriptor: int) -> None:
        if self.before_flush is not None:
            self.before_flush()
        if self.flush_fails:
            raise OSError(errno.EIO, "as the test wants it")
        self.flushed.append(os.fstat(descriptor).st_ino)

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        credentials: Credentials = CREDENTIALS,
    ) -> TestResponse:
        """The answer to a signed request; `path` is percent-encoded and may carry a query."""
        request = AWSRequest(method=method, url=f"{HOST}{path}", data=body, headers=dict(headers or {}))
        signer(S3SigV4Auth, credentials).add_auth(request)
        return self.send(method, path, body, dict(request.headers))

    def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> TestResponse:
        """The answer to a request as it is."""
        return Client(self.app).open(
            path, method=method, base_url=HOST, data=body, headers=dict(headers), buffered=True
        )

    def keys(self, bucket: str = "ray") -> list[str]:
        text = self("GET", f"/{bucket}?list-type=2").text
        return [unescape(part.split("</Key>")[0]) for part in text.split("<Key>")[1:]]

    def die(self) -> None:
        """As after SIGKILL: nothing is flushed; only the system's lock goes away."""
        self.disk.close()


class WsgiPool(urllib3.PoolManager):
    """A urllib3 pool whose every connection ends in `server`."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        answer = self.server.send(method, path, kw.get("body") or b"", dict(kw.get("headers") or {}))
        return urllib3.HTTPResponse(
            io.BytesIO(answer.data),
            headers=dict(answer.headers),
            status=answer.status_code,
            preload_content=kw.get("preload_content", True),
            request_method=method,
        )


class AnswerPool(urllib3.PoolManager):
    """A urllib3 pool whose server always gives this answer, which may be an error; a function makes each."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer, self.asked = answer, list[str]()

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        self.asked.append(url)
        answer = self.answer() if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer
