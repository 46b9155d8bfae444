"""Food-11 over a real connection that stalls and breaks, to a labctl that is interrupted and called again."""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.harness import Bench
from tests.ext.course.datasets.archives import archive
from tests.waiting import PATIENCE, eventually


class Mirror(ThreadingHTTPServer):
    """Serves one file. The first answer stalls half-way until `let_go`, the second one breaks off there."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.ranges: list[str | None] = []
        self.let_go = threading.Event()

    @property
    def url(self) -> str:
        """Where the file is."""
        return f"http://127.0.0.1:{self.server_port}/Food-11.zip"


class Handler(BaseHTTPRequestHandler):
    """One request, with byte ranges."""

    server: Mirror

    def do_GET(self) -> None:
        """Answer, whole or not."""
        wanted = self.headers["Range"]
        number = len(self.server.ranges)
        self.server.ranges.append(wanted)
        whole = self.server.content
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{len(whole) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(whole) - begin))
        self.send_header("Content-Type", "application/zip")
        self.send_header("ETag", '"the-one"')
        self.end_headers()
        rest = whole[begin:]
        if number > 1:
            self.wfile.write(rest)
            return
        self.wfile.write(rest[: len(rest) // 2])
        self.wfile.flush()
        if number == 0:
            self.server.let_go.wait(PATIENCE)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror(archive()) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.let_go.set()
        server.shutdown()
        thread.join(10)


def test_a_download_survives_an_interrupt_and_a_broken_connection(mirror: Mirror, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home")
    bench.home.mkdir()
    data = bench.home / "data"
    half = len(mirror.content) // 2

    first = bench.start("lesson", "data", "food11", "--url", mirror.url)

    def arrived() -> int:
        return sum(path.stat().st_size for path in data.glob(".downloads/*.part"))

    # What has arrived is written in pieces: of the last one a part may still be on its way.
    eventually(lambda: arrived() > half - 300_000, PATIENCE, "half of the archive is here")
    first.signal(signal.SIGINT)
    ended = first.end()
    assert (ended.code, ended.err.splitlines()[-1]) == (130, "interrupted")
    assert bench.labctl("lesson", "data", "list", "--json").document["datasets"] == []
    kept = arrived()
    assert half - 300_000 < kept <= half

    answer = bench.labctl(
        "lesson", "data", "food11", "--url", mirror.url, "--json", timeout=2 * PATIENCE
    ).document
    dataset = answer["dataset"]
    assert (answer["made"], dataset["pictures"], dataset["missing"]) == (True, 16643, 0)
    assert dataset["sha256"] == hashlib.sha256(mirror.content).hexdigest()
    assert mirror.ranges[:2] == [None, f"bytes={kept}-"]
    assert len(mirror.ranges) == 3
    picture = data / "Food-11" / "evaluation" / "class_10" / "10_7.jpg"
    assert picture.read_text() == "evaluation/10_7.jpg"
    assert "there already" in bench.labctl("lesson", "data", "food11").out
    assert bench.labctl("lesson", "data", "rm", "food11", "--yes").out.startswith("Food-11: deleted")
