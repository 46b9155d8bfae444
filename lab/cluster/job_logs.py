"""Logs of jobs, whatever bytes are in them: read as a whole, or only what is new."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from lab.cluster.api import RayApi, job_path, last_line
from lab.errors import ClusterError, NotFoundError

if TYPE_CHECKING:
    from lab.cluster.jobs import Job

WHOLE = -1
"""Asks for all lines of a log."""

LINES = 1000
"""Lines that are asked for to find the new ones: Ray's API (2.60) gives the last lines of a file, not those
from a position on. Of its other two ways, the stream that follows a file keeps one of the dashboard's 100
requests for ever once its reader is gone, and the WebSocket breaks at the first byte that is not UTF-8."""

SURE = LINES // 2
"""Lines that have to be the same to know where the new ones begin."""

TIMEOUT_SECONDS = 30.0

NO_LOG = re.compile("A file is not found at: ")
"""Beginning of Ray's refusal where the driver has written nothing."""


def log_path(job_id: str, node_id: str, last: int) -> str:
    """The page with the last lines of what a job's driver wrote. Ray's page of the job takes only UTF-8."""
    file = quote(f"job-driver-{job_id}.log", safe="")
    return f"/api/v0/logs/file?node_id={node_id}&filename={file}&lines={last}"


def read_log(api: RayApi, job: Job, last: int = WHOLE) -> str:
    """The last lines of what a job's driver has written; what is not UTF-8 is replaced.

    Raises NotFoundError where it is gone with its node, ClusterError.
    """
    if not (job.node_id or api.gateway):  # no driver yet, or never one
        return ""
    by_gateway = f"{job_path(job.submission_id)}/logs?lines={last}"
    path = by_gateway if api.gateway else log_path(job.submission_id, job.node_id, last)
    reply = api.request("GET", path, timeout=TIMEOUT_SECONDS)
    if reply.status == 200:
        return str(reply.json().get("logs") or "") if api.gateway else reply.data.decode(errors="replace")
    why = last_line(reply.data)
    if NO_LOG.match(why):
        return ""
    if why.startswith("Agent for node id"):
        raise NotFoundError(
            f"the log of job {job.submission_id} is gone with the node that its driver ran on"
        )
    raise ClusterError(f"Ray could not show the log of job {job.submission_id}: {why}")


def lines_of(text: str) -> list[str]:
    """The lines of a log. A progress bar, which returns to the beginning of its line, is one of them."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


class LogReader:
    """Reads a log on and on."""

    def __init__(self, read: Callable[[Job, int], str]) -> None:
        """`read` gives the last lines of a job's log, as many as it is asked for, or all."""
        self._read_log = read
        self._count = 0
        """Whole lines that were read."""
        self._recent: deque[str] = deque(maxlen=LINES)

    def more(self, job: Job) -> list[str]:
        """The lines that have come since the last call, only whole ones until the job has ended.

        Raises what reading the log raises.
        """
        whole, rest = self._read(job, LINES if self._count > LINES else WHOLE)
        begin = self._count
        if self._count > LINES and (begin := self._begin(whole)) == 0:
            whole, rest = self._read(job, WHOLE)
            begin = self._count
        new = whole[begin:]
        self._count += len(new)
        self._recent.extend(new)
        return lines_of("\n".join([*new, rest if job.final else ""]))

    def _read(self, job: Job, last: int) -> tuple[list[str], str]:
        """Whole lines, and the beginning of one."""
        *whole, rest = self._read_log(job, last).split("\n")
        return whole, rest

    def _begin(self, lines: list[str]) -> int:
        """The place among the last lines of a log where the new ones begin; 0 where that is not certain.

        It is not if too few of those before them are there, or if lines repeat so that they fit twice.
        """
        recent = list(self._recent)
        fitting = [n for n in range(SURE, len(lines) + 1) if lines[:n] == recent[len(recent) - n :]]
        return fitting[0] if len(fitting) == 1 else 0
