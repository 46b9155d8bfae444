"""Logs of jobs: any bytes, every line once, and little that is read twice."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.cluster import job_logs
from lab.cluster.api import ApiReply, RayApi
from lab.cluster.job_logs import LINES, SURE, WHOLE, LogReader, lines_of, read_log
from lab.cluster.jobs import Job
from lab.errors import ClusterError, NotFoundError

RUNS = Job("j1", "RUNNING", node_id="n1")
ENDED = Job("j1", "SUCCEEDED", node_id="n1")


class FileApi(RayApi):
    """A dashboard that has one log, and answers as Ray's does (log_agent.py, ray 2.60)."""

    def __init__(self, data: bytes = b"", *, gateway: bool = False) -> None:
        super().__init__("http://127.0.0.1:1", "", gateway=gateway)
        self.data, self.error = data, ""
        self.sent: list[int] = []
        """Bytes of each answer."""

    def request(self, method: str, path: str, *, body: Any = None, timeout: float = 0) -> ApiReply:
        if self.error:
            return ApiReply(500, self.error.encode())
        asked = urlsplit(path)
        query = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        if self.gateway:
            assert asked.path == "/api/jobs/j1/logs"
            return ApiReply(200, b'{"logs": "as the gateway gives it\\n"}')
        assert (method, asked.path) == ("GET", "/api/v0/logs/file")
        assert (query["node_id"], query["filename"]) == ("n1", "job-driver-j1.log")
        lines = self.data.splitlines(keepends=True) if b"\r" not in self.data else [self.data]
        last = int(query["lines"])
        data = self.data if last == WHOLE else b"".join(lines[-last:])
        self.sent.append(len(data))
        return ApiReply(200, data)


def test_any_bytes_are_shown() -> None:
    api = FileApi(b"before\ncaf\xe9\n\x00\xff\xfeafter")
    assert read_log(api, ENDED) == "before\ncaf\ufffd\n\x00\ufffd\ufffdafter"
    assert LogReader(partial(read_log, api)).more(ENDED) == ["before", "caf\ufffd", "\x00\ufffd\ufffdafter"]


def test_the_log_of_a_class_is_the_gateways() -> None:
    assert read_log(FileApi(gateway=True), Job("j1", "RUNNING")) == "as the gateway gives it\n"


def test_a_job_without_a_driver_or_without_a_word_has_an_empty_log() -> None:
    api = FileApi()
    assert read_log(api, Job("j1", "PENDING")) == ""
    api.error = "A file is not found at: /tmp/ray/session/logs/job-driver-j1.log"
    assert read_log(api, RUNS) == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Traceback\nUnicodeDecodeError: 'utf-8' codec can't decode byte", ClusterError),
        ("500 Internal Server Error", ClusterError),
        ("", ClusterError),
        ("Agent for node id: NodeID(n1) doesn't exist.", NotFoundError),
    ],
)
def test_an_error_of_the_server_is_an_error(text: str, error: type[Exception]) -> None:
    api = FileApi()
    api.error = text or " "
    with pytest.raises(error, match="the log of job j1"):
        read_log(api, RUNS)


def test_a_progress_bar_is_one_line_and_ends_of_lines_may_be_those_of_windows() -> None:
    assert lines_of("a\r\n 10%\r 20%\r100%\nb\x0bc\u2028d\n") == ["a", " 10%\r 20%\r100%", "b\x0bc\u2028d"]
    assert lines_of("") == []
    assert lines_of("\n") == [""]
    assert lines_of("a") == ["a"]


# Read on and on


def read_on(api: FileApi, parts: list[list[str]]) -> list[str]:
    """All lines that are read while a log grows by these parts."""
    reader, lines = LogReader(partial(read_log, api)), list[str]()
    for part in parts:
        api.data += "".join(f"{line}\n" for line in part).encode()
        lines += reader.more(RUNS)
    api.data += b"the end"
    return [*lines, *reader.more(ENDED)]


def test_a_poll_reads_only_what_is_new_and_the_lines_before_it() -> None:
    api = FileApi()
    parts = [[f"line {i}" for i in range(20_000)], *([f"more {i}"] for i in range(50)), []]
    assert read_on(api, parts) == [line for part in parts for line in part] + ["the end"]
    assert len(api.sent) == 53
    assert max(api.sent[1:]) < LINES * len("line 19999\n") < api.sent[0] / 10


def test_more_than_a_poll_asks_for_is_read_as_a_whole() -> None:
    parts = [[f"{number} {i}" for i in range(LINES * 3)] for number in range(3)]
    assert read_on(FileApi(), parts) == [line for part in parts for line in part] + ["the end"]


@pytest.mark.parametrize("period", [1, 2, 7, SURE - 1])
def test_lines_that_repeat_are_all_read(period: int) -> None:
    lines = [str(i % period) for i in range(5 * LINES)]
    parts = [lines[: 2 * LINES], [], lines[2 * LINES : 2 * LINES + 3], lines[2 * LINES + 3 :]]
    assert read_on(FileApi(), parts) == [*lines, "the end"]


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(st.lists(st.sampled_from(["", "a", "b", "step"]), max_size=20), max_size=12),
    begin=st.integers(0, 60),
)
def test_every_line_is_read_once_whatever_repeats(parts: list[list[str]], begin: int) -> None:
    """However often lines repeat, up to LINES - SURE new ones at a time are never mistaken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_logs, "LINES", 40)
        patch.setattr(job_logs, "SURE", 20)
        grown = [[str(i) for i in range(begin)], *parts]
        assert read_on(FileApi(), grown) == [line for part in grown for line in part] + ["the end"]


def test_a_line_is_given_when_it_is_whole() -> None:
    api = FileApi(b"one\ntw")
    reader = LogReader(partial(read_log, api))
    assert reader.more(RUNS) == ["one"]
    api.data += b"o\n"
    assert reader.more(RUNS) == ["two"]
    assert reader.more(ENDED) == []
