"""The tables of the class's page, made of what the queues and Ray answered. Pure.

A table whose source does not answer says so in its place.
"""

from __future__ import annotations

from lab.cluster.api import known_shape
from lab.daemons.gateway import views
from lab.daemons.gateway.page.model import (
    HEALTH,
    JOBS,
    NODES,
    QUEUES,
    WORKLOADS,
    Button,
    Cell,
    Look,
    Table,
    span,
)
from lab.daemons.gateway.page.records import lessons, recoveries
from lab.daemons.gateway.upstream import Reply
from lab.daemons.gateway.views import Row
from lab.errors import LabError
from lab.people.policy import Action
from lab.people.registry import Person
from lab.services import is_worker
from lab.topology import JOB_FINAL

OPEN = "None"
"""Kueue's stopPolicy of a queue that admits jobs."""

HERE_SECONDS = 120.0
"""Time after a request for which somebody counts as here."""

SEVERAL_PHASES = {"submitting": "starts", "resetting": "starts again"}
"""Phases of an admitted job that does not run yet -> the word."""

STATES = {"Pending": "waits", "Admitted": "runs", "Evicted": "is being stopped", "Deactivated": "on hold"}

DEVICES = {
    "PASS": ("healthy", "good"),
    "WARN": ("warning", "open"),
    "EVICT": ("sick: takes no work", "bad"),
}
"""State of a device -> its words and their tone."""


def tables(look: Look) -> tuple[Table, ...]:
    """The page's tables, in their order."""
    return tuple(make(look) for make in (_jobs, _queues, _nodes, _people, recoveries, lessons))


def facts(look: Look, jobs: Table) -> tuple[tuple[str, str], ...]:
    """Label and value of the figures at the head; `jobs` is the first of the tables."""
    here = sum(_is_here(look, person) for person in look.people.values())
    states = [row[2].text for row in jobs.rows]
    known = look.answers[WORKLOADS].good
    return (
        ("here now", f"{here} of {len(look.people)}"),
        ("jobs that run", str(states.count("runs")) if known else "not known"),
        ("jobs that wait", str(states.count("waits")) if known else "not known"),
        ("GPUs in use", _gpus(look)),
    )


def trouble(look: Look) -> str:
    """What everybody has to know first; empty where nothing is wrong."""
    nodes, silent = _document(look.answers[NODES], "data", "result", "result")
    if silent or any(node["state"] == "ALIVE" and is_worker(str(node["node_name"])) for node in nodes):
        return ""
    return (
        "No worker is alive: every job waits. One that was lost comes back by itself within a minute or two."
    )


def _document(reply: Reply, *names: str) -> tuple[list[Row], str]:
    """The list of this name in an answer, and why it is not all: a service that is away is no error here."""
    try:
        with known_shape("an answer"):
            if not reply.good:
                return [], refusal(reply)
            rows = document = reply.json()
            for name in names:
                rows = rows[name]
            away = document.get("away", {}) if isinstance(document, dict) else {}
            return list(rows), "; ".join(away.values())
    except LabError as error:
        return [], error.message


def refusal(reply: Reply) -> str:
    """The reason in an answer that is none."""
    try:
        return str(reply.json()["error"]["message"])
    except (LabError, KeyError, TypeError):
        return reply.text[:200] or f"HTTP {reply.status}"


def _jobs(look: Look) -> Table:
    rows, away = _document(look.answers[WORKLOADS], "workloads")
    known, silent = _document(look.answers[JOBS])
    lines = [_job(look, row) for row in sorted(rows, key=lambda row: row["status"] != "Admitted")]
    queued = {row["workload"] for row in rows}
    for job in known:
        if job.get("submission_id") and job["status"] not in JOB_FINAL:
            workload = views.workload_of(job)
            if workload not in queued:
                lines.append(_unqueued(look, job, workload.partition("/")[0]))
    return Table(
        "Jobs",
        "Whose job runs, whose waits, and for whom.",
        ("job", "whose", "state", "for whom it waits", ""),
        tuple(lines),
        "No job runs or waits.",
        "; ".join(filter(None, (away, silent and f"Ray: {silent}"))),
    )


def _job(look: Look, row: Row) -> tuple[Cell, ...]:
    owner, status = look.owner(row["namespace"]), str(row["status"])
    word = SEVERAL_PHASES.get(row["phase"], "runs") if status == "Admitted" else STATES.get(status, status)
    since = row["admitted_at"] if status == "Admitted" else row["created"]
    place = row["position_in_cluster_queue"]
    waits = row.get("waits") or ""
    stop = (Button("stop", row["workload"], "Stop"),) if look.may(Action.STOP, owner) else ()
    breaks = look.breaks and word == "runs" and look.may(Action.BREAK, owner)
    kill = (Button("kill", row["workload"], "Kill a node"),) if breaks else ()
    return (
        Cell(row["name"], note=row["recipe"] or ""),
        _whose(owner),
        Cell(word, _tone(word), f"for {span(look.now - since)}"),
        Cell(waits, note="" if place is None else f"place {place + 1} in {row['cluster_queue']}"),
        Cell(buttons=(*stop, *kill)),
    )


def _unqueued(look: Look, job: Row, space: str) -> tuple[Cell, ...]:
    """A job that did not come through the queues."""
    owner, word = look.owner(space), "runs" if job["status"] == "RUNNING" else "waits"
    stop = (
        (Button("stop-unqueued", f"/{job['submission_id']}", "Stop"),) if look.may(Action.STOP, owner) else ()
    )
    since = (job.get("start_time") or 0) / 1000
    return (
        Cell(job["submission_id"]),
        _whose(owner),
        Cell(word, _tone(word), f"for {span(look.now - since)}" if since else ""),
        Cell(note="not from a queue"),
        Cell(buttons=stop),
    )


def _whose(owner: str) -> Cell:
    return Cell(owner) if owner else Cell("the lab")


def _tone(word: str) -> str:
    return {"runs": "good", "waits": "open"}.get(word, "")


def _people(look: Look) -> Table:
    rows, _ = _document(look.answers[WORKLOADS], "workloads")
    queues, away = _document(look.answers[QUEUES], "local_queues")
    hub = any(person.has_server for person in look.people.values())
    lines = []
    for person in look.people.values():
        own = [row["status"] for row in rows if row["namespace"] == person.name]
        here = _is_here(look, person)
        mine = [one for one in queues if one["namespace"] == person.name]
        seen = _last_seen(look, person) if look.may(Action.READ, person.name) and not here else ""
        lines.append(
            (
                Cell(person.name, note="you" if person.name == look.me.name else ""),
                Cell("is being removed" if person.leaving else person.role.value),
                Cell("here", "good") if here else Cell("away", note=seen),
                _count(look, own, "Admitted"),
                _count(look, own, "Pending"),
                Cell(
                    ", ".join(dict.fromkeys(_policy(one) for one in mine)),
                    buttons=tuple(_held(look, "LocalQueue", one["namespace"], one) for one in mine)
                    if _changes(look)
                    else (),
                ),
                *((_server(look, person),) if hub else ()),
            )
        )
    return Table(
        "People",
        "Who is in the class. Here is whose server runs, or who asked for something in the last two minutes.",
        ("name", "role", "here", "jobs that run", "that wait", "queue", *(("JupyterLab",) if hub else ())),
        tuple(lines),
        "Nobody is in the class yet.",
        away,
    )


def _is_here(look: Look, person: Person) -> bool:
    return person.has_server or look.now - look.seen.get(person.name, 0.0) <= HERE_SECONDS


def _server(look: Look, person: Person) -> Cell:
    """Her JupyterLab, to those who may end it."""
    if not person.has_server or not look.may(Action.END_SERVER, person.name):
        return Cell()
    return Cell("runs", buttons=(Button("end", f"JupyterLab/{person.name}", "End"),))


def _count(look: Look, states: list[str], state: str) -> Cell:
    """So many jobs in this state; none is an empty cell."""
    return Cell(str(states.count(state) or "") if look.answers[WORKLOADS].good else "not known")


def _last_seen(look: Look, person: Person) -> str:
    at = look.seen.get(person.name)
    return "not seen since the gateway started" if at is None else f"{span(look.now - at)} ago"


def _queues(look: Look) -> Table:
    rows, away = _document(look.answers[QUEUES], "cluster_queues")
    more, _ = _document(look.answers[QUEUES], "local_queues")
    lines = [_queue(look, "ClusterQueue", "", row, row["name"], _usage(row)) for row in rows]
    lines += [
        _queue(look, "LocalQueue", row["namespace"], row, f"{row['namespace']}/{row['name']}",
               f"leads to {row['cluster_queue']}")
        for row in more
        if not look.owner(row["namespace"])
    ]  # fmt: skip
    return Table(
        "Queues",
        "Everybody's quota. On hold means that jobs that run go on, and none that waits begins.",
        ("queue", "state", "in use", "jobs that run", "that wait", ""),
        tuple(lines),
        "There is no queue.",
        away,
    )


def _queue(look: Look, kind: str, space: str, row: Row, name: str, usage: str) -> tuple[Cell, ...]:
    word = _policy(row)
    if word == "open" and not row.get("active", True):
        word = f"closed: {row['message']}"
    return (
        Cell(name),
        Cell(word, "good" if word == "open" else "open"),
        Cell(usage),
        Cell(str(row["admitted"])),
        Cell(str(row["pending"])),
        Cell(buttons=(_held(look, kind, space, row),) if _changes(look) else ()),
    )


def _changes(look: Look) -> bool:
    return look.may(Action.CHANGE_QUEUES, "")


def _held(look: Look, kind: str, space: str, row: Row) -> Button:
    """The button that puts a queue on hold, or ends that."""
    act, label = ("hold", "Hold") if row["stop"] == OPEN else ("resume", "Resume")
    return Button(act, f"{kind}/{space}/{row['name']}", label)


def _policy(row: Row) -> str:
    return "open" if row["stop"] == OPEN else "on hold"


def _usage(row: Row) -> str:
    return ", ".join(
        f"{use['used']:g} of {use['nominal']:g} {_resource(use['resource'])}"
        for use in row["flavors"]
        if use["nominal"] and use["resource"] != "memory"
    )


def _resource(name: str) -> str:
    return "GPU" if name.lower().endswith("/gpu") else name.upper() if name == "cpu" else name


def _gpus(look: Look) -> str:
    """GPUs in use of those that the queues give out."""
    rows, _ = _document(look.answers[QUEUES], "cluster_queues")
    uses = [use for row in rows for use in row["flavors"] if _resource(use["resource"]) == "GPU"]
    if not look.answers[QUEUES].good:
        return "not known"
    used, nominal = (sum(use[name] for use in uses) for name in ("used", "nominal"))
    return f"{used:g} of {nominal:g}"


def _nodes(look: Look) -> Table:
    nodes, silent = _document(look.answers[NODES], "data", "result", "result")
    devices, away = _document(look.answers[HEALTH], "devices")
    by_age = sorted(nodes, key=lambda node: node.get("start_time_ms") or 0)
    newest = {str(node["node_name"]): node for node in by_age}
    names = sorted({*newest, *(device["node"] for device in devices)})
    lines = [_node(name, newest.get(name), [one for one in devices if one["node"] == name]) for name in names]
    return Table(
        "Nodes and GPUs",
        "The machines of the lab as Ray sees them, and their health by its checks.",
        ("node", "state", "offers", "health"),
        tuple(lines),
        "No node is known.",
        "; ".join(filter(None, (silent and f"Ray: {silent}", away))),
    )


def _node(name: str, node: Row | None, devices: list[Row]) -> tuple[Cell, ...]:
    state, total = Cell("not known", "open"), (node or {}).get("resources_total") or {}
    if node is not None:
        alive = node["state"] == "ALIVE"
        state = Cell("alive", "good") if alive else Cell("dead", "bad", str(node.get("state_message") or ""))
    offered = ", ".join(f"{total[kind]:g} {kind}" for kind in ("GPU", "CPU") if total.get(kind))
    states = [DEVICES.get(one["state"], ("not known", "open")) for one in devices]
    worst = max((tone for _, tone in states), key=("good", "open", "bad").index, default="")
    words = ", ".join(f"{one['device']} {word}" for one, (word, _) in zip(devices, states, strict=True))
    bad = "; ".join(one["message"] for one in devices if one["state"] != "PASS" and one["message"])
    return Cell(name), state, Cell(offered or "–"), Cell(words or "–", worst, bad)
