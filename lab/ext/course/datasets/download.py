"""Downloads a large file over HTTP. What has arrived stays, and the next call resumes there.

requests does what the environment says: proxies, .netrc, certificates; and it follows redirects.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.api.light import restore
from lab.errors import SetupError, UsageError
from lab.ext.course.datasets.model import OnProgress, ignore_progress
from lab.host.clock import MONOTONIC, Clock
from lab.host.files import size_of
from lab.host.http import reason
from lab.host.reading import SMALL, open_file, read_json

if TYPE_CHECKING:
    from requests import Response, Session
    from urllib3.util import Url

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
"""Timeout for the next bytes of a download."""

MAX_REDIRECTS = 8
FRUITLESS = 5
"""Retries in a row that bring nothing before a download is given up."""

LONGEST_PAUSE_SECONDS = 20.0
"""Longest back-off between two retries."""

CHUNK = 1 << 18
ROOM = 2.2
"""Disk that is needed, in sizes of the archive: itself and what is in it."""

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of a server that may do better in a moment."""

ADDRESS = re.compile(r"\S*(?://|\?|@)\S*")
"""A word of an error that may hold a secret."""

PROXY = "(HTTP_PROXY, HTTPS_PROXY)"

PAGES = ("text/html", "application/json", "text/xml", "application/xml")
"""Types of an answer that is not the file."""


def check_url(url: str) -> None:
    """Refuse what is no address of http or https. Raises UsageError."""
    parts = _parse(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.host:
        raise UsageError(
            f"--url {shown(url)}: not an address of http or https", "for a file on this machine: --from FILE"
        )


def shown(url: str) -> str:
    """`url` as it may be written: without user and query, which may be secrets."""
    parts = _parse(url)
    if parts is None or ("@" in url and not parts.host):
        return "..."
    return parts._replace(auth=None, query=None, fragment=None).url


def fingerprint(url: str) -> str:
    """64 hexadecimal digits that name the whole of `url` without saying it."""
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def _parse(url: str) -> Url | None:
    from urllib3.exceptions import LocationParseError
    from urllib3.util import parse_url

    try:
        return parse_url(url)
    except LocationParseError:
        return None


class _BrokenError(Exception):
    """A request ended before its file did; the next one may bring the rest."""


class UnreachableError(SetupError):
    """Nothing can be had from this address now; another may do."""


@dataclass(frozen=True)
class Known:
    """Facts about a file of which a part is here."""

    validator: str = ""
    """ETag or date by which the server tells whether it is still the same file; empty: it gave none."""
    total: int = 0
    """Bytes of the whole; 0 when the server did not say."""


class Download:
    """Fetches `url` into `part`, where an earlier attempt at this address may have left its beginning."""

    def __init__(
        self,
        url: str,
        part: Path,
        *,
        session: Session | None = None,
        on_progress: OnProgress = ignore_progress,
        clock: Clock = MONOTONIC,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        """Get ready to download `url`. Raises UsageError when it is no address."""
        check_url(url)
        self.url, self.part, self._note = url, part, part.with_name(part.name + ".json")
        self._session, self._progress, self._clock, self._free = session, on_progress, clock, free
        self._met = False
        """True once the server has answered."""
        try:
            self._known = restore(Known, read_json(self._note, SMALL))
        except (OSError, ValueError):
            self._known = Known()

    def fetch(self) -> None:
        """Fetch what is missing; when it returns `part` has every byte that the server promised.

        Raises UnreachableError when the address gives nothing, SetupError for a full disk. What has arrived
        stays.
        """
        fruitless, most = 0, size_of(self.part)
        while not 0 < self._known.total == size_of(self.part):
            try:
                self._attempt()
                return
            except _BrokenError as broken:
                arrived = size_of(self.part)
                fruitless, most = 0 if arrived > most else fruitless + 1, max(most, arrived)
                if fruitless >= FRUITLESS:
                    stays = f"{arrived} of {self._known.total or 'unknown'} bytes are here and stay"
                    raise UnreachableError(f"{shown(self.url)}: {broken}; {stays}") from broken
            self._clock.sleep(min(2.0**fruitless, LONGEST_PAUSE_SECONDS))

    def _attempt(self) -> None:
        """One request. Raises _BrokenError when the file is not whole after it."""
        import requests
        from urllib3.exceptions import HTTPError

        if self._session is None:
            self._session = requests.Session()
            self._session.max_redirects = MAX_REDIRECTS
            trusted = ssl.get_default_verify_paths()  # by this machine, rather than by requests alone
            self._session.verify = trusted.cafile or trusted.capath or True
        headers = {"Accept-Encoding": "identity"}
        have = size_of(self.part) if self._known.validator else 0
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": self._known.validator}
        timeout = (CONNECT_SECONDS, READ_SECONDS)
        try:
            answer = self._session.get(self.url, headers=headers, stream=True, timeout=timeout)
            self._met = True
            with answer:
                self._take(answer.raw.stream(CHUNK, decode_content=False), self._judge(answer, have))
        except (requests.RequestException, HTTPError) as error:
            if not self._met:
                raise UnreachableError(f"{shown(self.url)} does not answer: {_plain(error)}") from error
            raise _BrokenError(_plain(error)) from error
        if self._known.total and self._known.total != size_of(self.part):
            raise _BrokenError("the connection ended early")

    def _judge(self, answer: Response, have: int) -> int:
        """The place in the file where the answer's bytes belong. Raises _BrokenError, UnreachableError."""
        status, headers = answer.status_code, answer.headers
        if status in BUSY:
            raise _BrokenError(f"it answers HTTP {status}")
        place = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
        if status == 206 and place and int(place[1]) == have:
            self._remember(Known(self._known.validator, int(place[2])))
            return have
        if status in (206, 416):
            self._remember(Known())
            raise _BrokenError("the file on the server has changed")
        if status != 200:
            raise UnreachableError(f"{shown(self.url)} answers HTTP {status}")
        kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in PAGES:
            raise UnreachableError(f"{shown(self.url)} gives a page ({kind}), not an archive")
        etag, length = headers.get("ETag", ""), headers.get("Content-Length", "")
        strong = etag if not etag.startswith("W/") else ""
        validator = strong or headers.get("Last-Modified", "")
        self._remember(Known(validator, int(length) if length.isdigit() else 0))
        return 0

    def _take(self, chunks: Iterable[bytes], begin: int) -> None:
        total = self._known.total
        need, free = int(total * ROOM) - begin, self._free(self.part.parent)
        if free < need:
            raise SetupError(
                f"{self.part.parent}: {free / 1e9:.1f} GB are free, and {need / 1e9:.1f} GB are needed",
                "free some space, or choose another disk: export RAYLAB_HOME=/some/where",
            )
        done = begin
        with self.part.open("ab" if begin else "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
                done += len(chunk)
                self._progress("download", done, total)

    def _remember(self, known: Known) -> None:
        self._known = known
        self._note.write_text(json.dumps(vars(known)))


def sha256_of(path: Path, on_progress: OnProgress = ignore_progress) -> str:
    """The SHA-256 of a file."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with open_file(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            done += len(block)
            on_progress("verify", done, total)
    return digest.hexdigest()


def _plain(error: Exception) -> str:
    """An error of requests or urllib3 in a few words, and without an address: it may hold a secret."""
    import requests

    own: dict[type[Exception], str] = {
        requests.exceptions.InvalidProxyURL: f"its proxy has no address {PROXY}",
        requests.exceptions.InvalidSchema: f"only http and https work, for the proxy too {PROXY}",
        requests.TooManyRedirects: "it redirects too often",
    }
    inner = error.args[0] if error.args else None  # requests wraps urllib3's error
    said = own.get(type(error)) or reason(inner if isinstance(inner, Exception) else error)
    return ADDRESS.sub("an address", said)
