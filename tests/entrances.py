"""The entrances of a class and who comes through: the table of docs/class.md, tried by e2e/entrances.py.

Every entrance leads to something of ben's, or of the lab's. It is tried from another machine, through the
class's one address, and in a terminal of ann's server. On plain processes every port of the server and, as
all servers run as one Unix user, every file is at hand there; in containers all services of the lab are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PEOPLE = ("nobody", "ann", "ben", "assistant", "teacher")
"""Whose token, cookie and key is used: students, an assistant, a teacher, and nobody's at all."""

ANYBODY = " ".join(PEOPLE)
SIGNED_IN = "ann ben assistant teacher"
NONE = ""

HEAD = (
    "entrance",
    "what is tried",
    "at the address",
    "in ann's terminal: processes",
    "in ann's terminal: containers",
)
SAID = {NONE: "-", ANYBODY: "**anybody**", SIGNED_IN: "all who are signed in"}


@dataclass(frozen=True)
class Entrance:
    """Something that is tried with each person's token, cookie or key."""

    name: str
    what: str
    by: str
    """What is shown: a `cookie`, a `token`, `ray`, which is Ray's own token, the key of the store to `read`
    or `write` an object, or nothing for a `file`, and to `listen` to what kernels print."""
    port: str
    """Name of the service's port. At the address `/NAME` is tried for one that it does not lead to, and for
    files paths that lead out of the folder of ann's JupyterLab."""
    path: str
    """Method and path, an object, or a path of a file or of the kernels' folder; {names} are the lab's."""
    proof: str = ""
    """Words that an answer has only if it is what was asked for."""
    address: str = NONE
    """Names of those who come through from another machine."""
    terminal: str = NONE
    """Names of those who do in ann's terminal, on plain processes."""
    container: str | None = None
    """The same in containers, where others come there; None: the same people."""
    body: str = ""

    @property
    def contained(self) -> str:
        """Names of those who come through in ann's terminal, in containers."""
        return self.terminal if self.container is None else self.container

    @property
    def words(self) -> str:
        """Its row in the table."""
        cells = (self.name, self.what, *map(_said, (self.address, self.terminal, self.contained)))
        return f"| {' | '.join(cells)} |"


def both(who: str) -> Mapping[str, str]:
    """The same people come through at both places."""
    return {"address": who, "terminal": who}


def _said(who: str) -> str:
    return SAID.get(who, ", ".join(who.split()))


HUB, LAB, PAGE, FILES = "JupyterHub", "JupyterLab", "class's page", "files"
GATEWAY, QUEUES, DIRECT = "gateway: Ray's Jobs API", "gateway: queues", "queues' controller"
STORE, DASHBOARD = "object store (S3)", "Ray's dashboard"
BEYOND = "the same with Ray's own token, out of the lab's files"
LOG, ROW, NOTE = "{job} printed this", '"{job}"', "GET /user/ben/api/contents/note.txt"
JOB = '{"queue": "ben/default", "command": ["true"], "workers": {"count": 1, "cpus": 1}}'
READERS, OWNERS, STAFF = "ben assistant teacher", "ben teacher", "assistant teacher"

ENTRANCES = (
    Entrance(HUB, "home page, after signing in", "cookie", "hub",
             "GET /hub/home", "My Server", **both(SIGNED_IN)),
    Entrance(HUB, "page of administration", "cookie", "hub", "GET /hub/admin", "admin", **both("teacher")),
    Entrance(LAB, "a file in ben's", "cookie", "hub", NOTE, "of ben", **both(OWNERS)),
    Entrance(LAB, "the same, past JupyterHub's proxy", "cookie", "server", NOTE, "of ben", terminal=OWNERS),
    Entrance(LAB, "what happens in ben's, as a WebSocket", "cookie", "hub",
             "UPGRADE /user/ben/api/events/subscribe", **both(OWNERS)),
    Entrance(PAGE, "the page, after signing in", "cookie", "gateway",
             "GET /class/now", "As of", **both(SIGNED_IN)),
    Entrance(GATEWAY, "list of jobs: names and states", "token", "gateway",
             "GET /api/jobs/", ROW, **both(SIGNED_IN)),
    Entrance(GATEWAY, "log of ben's job", "token", "gateway",
             "GET /api/jobs/{job}/logs", LOG, **both(READERS)),
    Entrance(GATEWAY, "follow the log of ben's job, as a WebSocket", "token", "gateway",
             "UPGRADE /api/jobs/{job}/logs/tail", **both(READERS)),
    Entrance(GATEWAY, "stop ben's job", "token", "gateway",
             "POST /api/jobs/{job}/stop", "stopped", **both(OWNERS)),
    Entrance(GATEWAY, "Ray's tasks", "token", "gateway", "GET /api/v0/tasks", "result", **both(STAFF)),
    Entrance(GATEWAY, "list of jobs, with Ray's own token", "ray", "gateway", "GET /api/jobs/", ROW),
    Entrance(QUEUES, "list of jobs", "token", "gateway",
             "GET /workloads?status=all", ROW, **both(SIGNED_IN)),
    Entrance(QUEUES, "all of ben's job", "token", "gateway",
             "GET /workloads/ben/{job}", "{job} printed", **both(READERS)),
    Entrance(QUEUES, "hold ben's job", "token", "gateway",
             "POST /workloads/ben/{job}/deactivate", **both(OWNERS)),
    Entrance(QUEUES, "submit into ben's queue", "token", "gateway",
             "POST /dry-run", **both(OWNERS), body=JOB),
    Entrance(QUEUES, "change a queue", "token", "gateway", "POST /apply", **both("teacher"), body="{apply}"),
    Entrance(DIRECT, "list of jobs, past the gateway", "token", "queue", "GET /workloads?status=all", ROW),
    Entrance(DIRECT, BEYOND, "ray", "queue", "GET /workloads?status=all", ROW,
             terminal=ANYBODY, container=NONE),
    Entrance(STORE, "read an object of ben's", "read", "s3", "people/ben/note", "of ben", terminal=READERS),
    Entrance(STORE, "write one", "write", "s3", "people/ben/more", terminal=OWNERS),
    Entrance(STORE, "read the shared data", "read", "s3", "shared/note", "of all", terminal=SIGNED_IN),
    Entrance(STORE, "write to the shared data", "write", "s3", "shared/more", terminal="teacher"),
    Entrance(DASHBOARD, "jobs and their environments", "token", "dashboard", "GET /api/jobs/", ROW),
    Entrance(DASHBOARD, BEYOND, "ray", "dashboard", "GET /api/jobs/", "ben/{job}",
             terminal=ANYBODY, container=NONE),
    Entrance("Prometheus", "any metric", "token", "prometheus",
             "GET /api/v1/query?query=up", "success", terminal=ANYBODY),
    Entrance("Grafana", "health", "token", "grafana", "GET /api/health", "database"),
    Entrance(FILES, "ben's home", "file", "hub", "{homes}/ben/work/note.txt", "of ben",
             terminal=ANYBODY, container=NONE),
    Entrance(FILES, "list of the class, with everybody's key of the store", "file", "hub",
             "{people}", "{key}", terminal=ANYBODY, container=NONE),
    Entrance("`/proc`", "environment of ben's server, with his token and key", "file", "hub",
             "/proc/{pid}/environ", "{key}", terminal=ANYBODY, container=NONE),
    Entrance("kernels", "what ben's prints, from every port and socket in sight", "listen", "hub",
             "{kernels}", "ben prints this", terminal=ANYBODY, container=NONE),
)  # fmt: skip


def table() -> str:
    """The table in Markdown, without a line's end at its end."""
    head = (f"| {' | '.join(HEAD)} |", f"| {' | '.join('---' for _ in HEAD)} |")
    return "\n".join((*head, *(one.words for one in ENTRANCES)))


def write(file: Path) -> None:
    """Put the table in the place of the one that is there."""
    lines = file.read_text(encoding="utf-8").splitlines()
    begin = lines.index(table().partition("\n")[0])
    end = next((n for n in range(begin, len(lines)) if not lines[n].startswith("|")), len(lines))
    file.write_text("\n".join([*lines[:begin], table(), *lines[end:]]) + "\n", encoding="utf-8")
