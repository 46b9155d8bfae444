"""A large file over HTTP, which may take several calls: what has arrived is kept and gone on with."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from lab.datasets import address
from lab.datasets.model import OnProgress, ignore_progress
from lab.errors import SetupError
from lab.host.reading import SMALL, open_file, read_json

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
"""Deadline for the next bytes of a download."""

FRUITLESS = 5
"""So many attempts in a row that bring nothing are enough."""

LONGEST_PAUSE_SECONDS = 20.0
CHUNK = 1 << 18
ROOM = 2.2
"""Disk that is needed, in sizes of the archive: itself and what is in it."""

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a server that may do better in a moment."""


ADDRESS = re.compile(r"\S*(?://|\?|@)\S*")
"""What may hold a secret in a message of urllib3."""


class Http(Protocol):
    """What is used of a urllib3 pool."""

    def request(self, method: str, url: str, **options: Any) -> Any:
        """One request; returns a response that streams."""


PAGES = ("text/html", "application/json", "text/xml", "application/xml")
"""What servers answer with in place of a file."""


class _BrokenError(Exception):
    """A request that ended before its file did; the next one may bring the rest."""


class UnreachableError(SetupError):
    """Nothing can be had from this address now; another may do."""


@dataclass(frozen=True)
class Known:
    """What is known of a file of which a part is here."""

    address: str
    """The fingerprint of its URL, which may hold a secret."""
    validator: str = ""
    """ETag or date by which the server tells whether it is still the same file; empty: it gave none."""
    total: int = 0
    """Bytes of the whole; 0 when the server did not say."""


class Download:
    """Fetches `url` into `part`, where an earlier attempt may have left its beginning."""

    def __init__(
        self,
        url: str,
        part: Path,
        *,
        http: Http | None = None,
        on_progress: OnProgress = ignore_progress,
        sleep: Callable[[float], None] = time.sleep,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        """`http` is the urllib3 pool to use. Raises UsageError when `url` is no address, SetupError when the
        proxy for it cannot be used.
        """
        address.check(url)
        self.url, self.part = url, part
        self._shown, self._address = address.shown(url), address.fingerprint(url)
        self._http, self._progress, self._sleep, self._free = http or pool(url), on_progress, sleep, free
        self._met = False
        """Whether the server has answered this Download."""
        self._known = self._read()

    def fetch(self) -> None:
        """Fetch what is missing; when it returns `part` has every byte that the server promised.

        Raises UnreachableError when the address gives nothing, SetupError for a full disk. What has arrived
        stays.
        """
        fruitless, most = 0, self._size()
        while not self._whole():
            try:
                self._attempt()
                return
            except _BrokenError as broken:
                fruitless = 0 if self._size() > most else fruitless + 1
                most = max(most, self._size())
                if fruitless >= FRUITLESS:
                    arrived = f"{self._size()} of {self._known.total or 'unknown'} bytes are here and stay"
                    raise UnreachableError(f"{self._shown}: {broken}; {arrived}") from broken
            self._sleep(min(2.0**fruitless, LONGEST_PAUSE_SECONDS))

    def forget(self) -> None:
        """Delete what has arrived."""
        self.part.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
        self._known = Known(self._address)

    @property
    def _note(self) -> Path:
        return self.part.with_name(self.part.name + ".json")

    def _attempt(self) -> None:
        """One request. Raises _BrokenError when the file is not whole after it."""
        from urllib3.exceptions import HTTPError

        have = self._size()
        try:
            answer = self._http.request("GET", self.url, headers=self._headers(have), preload_content=False)
        except HTTPError as error:
            if not self._met:
                raise UnreachableError(f"{self._shown} does not answer: {_plain(error)}") from error
            raise _BrokenError(_plain(error)) from error
        self._met = True
        with closing(answer):
            begin = self._judge(answer, have)
            try:
                self._take(answer, begin)
            except HTTPError as error:
                raise _BrokenError(_plain(error)) from error
        if self._known.total and not self._whole():
            raise _BrokenError("the connection ended early")

    def _whole(self) -> bool:
        return 0 < self._known.total == self._size()

    def _headers(self, have: int) -> Mapping[str, str]:
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self._known.validator:
                headers["If-Range"] = self._known.validator
        return headers

    def _judge(self, answer: Any, have: int) -> int:
        """Where in the file the answer's bytes belong. Raises _BrokenError, UnreachableError."""
        status, headers, known = answer.status, answer.headers, self._known
        if status in BUSY:
            raise _BrokenError(f"it answers HTTP {status}")
        if status == 206:
            match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
            named = headers.get("ETag" if known.validator.startswith('"') else "Last-Modified")
            same = named in (None, known.validator)
            if match and same and int(match[1]) == have and known.total in (0, int(match[2])):
                self._remember(Known(self._address, known.validator, int(match[2])))
                return have
        if status in (206, 416):
            self.forget()
            raise _BrokenError("the server has another file now")
        if status != 200:
            raise UnreachableError(f"{self._shown} answers HTTP {status}")
        kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in PAGES:
            raise UnreachableError(f"{self._shown} gives a page ({kind}), not an archive")
        etag, length = headers.get("ETag", ""), headers.get("Content-Length", "")
        strong = etag if not etag.startswith("W/") else ""
        validator = strong or headers.get("Last-Modified", "")
        self._remember(Known(self._address, validator, int(length) if length.isdigit() else 0))
        return 0

    def _take(self, answer: Any, begin: int) -> None:
        total = self._known.total
        need, free = int(total * ROOM) - begin, self._free(self.part.parent)
        if free < need:
            raise SetupError(
                f"{self.part.parent}: {free / 1e9:.1f} GB are free, and {need / 1e9:.1f} GB are needed",
                "free some space, or choose another disk: export RAYLAB_HOME=/some/where",
            )
        done = begin
        with self.part.open("ab" if begin else "wb") as stream:
            for chunk in answer.stream(CHUNK, decode_content=False):
                stream.write(chunk)
                done += len(chunk)
                self._progress("download", done, total)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _read(self) -> Known:
        try:
            known = Known(**read_json(self._note, SMALL))
        except (OSError, ValueError, TypeError):
            known = Known("")
        if known.address != self._address:
            self.part.unlink(missing_ok=True)
            return Known(self._address)
        return known

    def _remember(self, known: Known) -> None:
        self._known = known
        self._note.write_text(json.dumps(known.__dict__))


def pool(url: str) -> Http:
    """A urllib3 pool for `url` that obeys the proxy settings of the environment. Raises SetupError."""
    from urllib.request import getproxies, proxy_bypass

    import urllib3

    options: dict[str, Any] = {
        "timeout": urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        "retries": urllib3.Retry(total=8, connect=0, read=0, other=0, status=0, redirect=8),
    }
    direct = proxy_bypass(urlsplit(url).hostname or "")
    proxy = None if direct else address.proxy_for(url, getproxies())
    if proxy is None:
        plain: Http = urllib3.PoolManager(**options)
        return plain
    through: Http = urllib3.ProxyManager(proxy.url, proxy_headers=dict(proxy.headers), **options)
    return through


def sha256_of(path: Path, on_progress: OnProgress = ignore_progress) -> str:
    """The SHA-256 of a file."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    for block in _blocks(path):
        digest.update(block)
        done += len(block)
        on_progress("verify", done, total)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with open_file(path) as stream:
        while block := stream.read(1 << 20):
            yield block


def _plain(error: BaseException) -> str:
    """What urllib3 met, in a few words."""
    from urllib3 import exceptions as e

    if isinstance(error, e.MaxRetryError) and error.reason is not None:
        error = error.reason
    names = (
        (e.NameResolutionError, "its name is not known here (no internet?)"),
        (e.ProxyError, "its proxy lets nothing through (HTTP_PROXY, HTTPS_PROXY)"),
        (e.LocationValueError, "it leads to no address"),
        (e.NewConnectionError, "nothing accepts connections there"),
        (e.ConnectTimeoutError, f"no connection within {CONNECT_SECONDS:g} s"),
        (e.ReadTimeoutError, f"nothing came for {READ_SECONDS:g} s"),
        (e.SSLError, "its certificate is not valid"),
        (e.IncompleteRead, "the connection broke"),
        (e.ProtocolError, "the connection broke"),
    )
    said = ADDRESS.sub("an address", str(error))
    return next((text for kind, text in names if isinstance(error, kind)), said)
