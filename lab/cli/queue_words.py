"""Documents of the queues in words: places, reasons, holders, and when a job could start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.cli import format
from lab.queue.plainly import said

Document = Mapping[str, Any]

NEVER = {
    "ExceedsMaxQuota": "never: it asks for more than its queue can ever have",
    "NoMatchingFlavor": "never with these queues: none has a quota of what it asks for",
    "Suspended": "not before its queue is resumed",
    "Misconfigured": "not before its queue exists",
}
SHOWN = 5
"""Holders, or ends that a forecast counts on, that a person is shown."""

QUEUE_FIELDS = {
    "namespace": "namespace",
    "leads to": "cluster_queue",
    "cohort": "cohort",
    "below": "parent",
    "strategy": "strategy",
    "status": "message",
    "pending": "pending",
    "admitted": "admitted",
}
"""Name -> key of what is shown of a queue, where it has it."""

LATEST = 20
"""Events of a job that a person is shown."""


def ordinal(place: int) -> str:
    """`1st` for 0, `2nd` for 1: places are counted from 0 in documents."""
    number = place + 1
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def amount(resource: str, value: float) -> str:
    """`2 nvidia.com/gpu`, `4 cpu`, `8.6 GB memory`."""
    return f"{format.size(value) if resource == 'memory' else f'{value:g}'} {resource}"


def amounts(requests: Mapping[str, float]) -> str:
    """Several of them."""
    return ", ".join(amount(resource, value) for resource, value in requests.items())


def asked(pod_sets: Sequence[Document]) -> str:
    """Demand of a job: `driver: 1 cpu; 2 workers (at least 1): 1 cpu, 1 nvidia.com/gpu each`."""
    return "; ".join(_pod_set(pod_set) for pod_set in pod_sets)


def _pod_set(pod_set: Document) -> str:
    count, least = pod_set["count"], pod_set["min_count"]
    wanted = amounts(pod_set["requests"]) or "nothing"
    if pod_set["name"] == "driver":
        return f"driver: {wanted}"
    fewer = f" (at least {least})" if least is not None and least < count else ""
    return f"{_counted(pod_set)}{fewer}: {wanted}{' each' if count > 1 else ''}"


def _counted(pod_set: Document) -> str:
    """`1 worker`, `2 workers`; `driver`."""
    if pod_set["name"] == "driver":
        return "driver"
    name = pod_set["name"].removesuffix("s") if pod_set["count"] == 1 else pod_set["name"]
    return f"{pod_set['count']} {name}"


def place(document: Document) -> str:
    """`2nd of 5 in ClusterQueue a, 1st of 2 in LocalQueue b`."""
    parts = []
    for queue in ("cluster", "local"):
        where, of = document.get(f"position_in_{queue}_queue"), document.get(f"of_{queue}_queue")
        if where is not None:
            all_of = f" of {of}" if of is not None else ""
            kind = f"{queue.capitalize()}Queue {document[f'{queue}_queue']}"
            parts.append(f"{ordinal(where)}{all_of} in {kind}")
    return ", ".join(parts)


def reason(document: Document) -> str:
    """Reason and message in one."""
    word, message = document["reason"], document["message"]
    return f"{word}: {message}" if word and message else word or message or "not tried yet"


def explained(document: Document) -> str:
    """The same of a job that does not wait, with a sentence for people."""
    return reason({**document, "message": with_sentence(document["message"])})


def plainly(document: Document) -> str:
    """The reason in a sentence for people; empty for a job that does not wait."""
    return str(document.get("waits") or "")


def called(document: Document) -> str:
    """A job with its name and owner: `ann/job-x (sweep, of ann)`."""
    owner = document.get("owner", "")
    more = ", ".join(filter(None, (document.get("job_name", ""), f"of {owner}" if owner else "")))
    return f"{document['workload']}{f' ({more})' if more else ''}"


def holder(document: Document, now: float) -> str:
    """One holder of what is missing."""
    held = "; ".join(amounts(usage) for usage in document["usage"].values())
    since = document["since"]
    for_ = "" if since is None else f", for {format.seconds(max(0.0, now - since))}"
    queue = f" in {document['cluster_queue']}"
    leaving = f", is being stopped ({document['leaving']})" if document["leaving"] else ""
    return f"{called(document)}: {held}{queue}{for_}{leaving}"


def start(document: Document) -> str:
    """When a job could start, and on what that rests; empty for one that does not wait."""
    forecast = document["forecast"]
    if forecast is None:
        return ""
    if forecast["at"] is None:
        return _not_known(document, forecast)
    ends = [_end(end) for end in forecast["ends"]]
    more = f" and {len(ends) - SHOWN} before them" if len(ends) > SHOWN else ""
    after = f", after {'; '.join(ends[-SHOWN:])}{more}" if ends else ""
    seconds = forecast["seconds"]
    when = (
        "at any moment" if seconds < 1 else f"in {format.seconds(seconds)} ({format.clock(forecast['at'])})"
    )
    return f"{when}{after}"


def _end(end: Document) -> str:
    length = format.seconds(end["length"])
    if end["basis"] == "time limit":
        return f"{end['workload']} (time limit {length})"
    return f"{end['workload']} (such jobs took {length}, median of {end['jobs']})"


def _not_known(document: Document, forecast: Document) -> str:
    if forecast["why_not"] == "far":
        return "not known: too far ahead"
    if forecast["unknown"]:
        names = ", ".join(forecast["unknown"][:SHOWN])
        verb = "have" if len(forecast["unknown"]) > 1 else "has"
        return f"not known: {names} {verb} no --max-time, and no such job has finished yet"
    return NEVER.get(document["reason"], "not known: nothing that is foreseen makes room for it")


def away(document: Document) -> str:
    """Services that the controller cannot reach; empty when it reaches all."""
    silent = "; ".join(f"{name} does not answer ({why})" for name, why in document.get("away", {}).items())
    return f"{silent}: nothing is admitted meanwhile" if silent else ""


def why_rows(document: Document) -> Iterator[tuple[str, Any]]:
    """Names and values about a job that waits, or would."""
    yield "place", place(document)
    yield "reason", reason(document)
    yield "waits", plainly(document)
    for shortage in document["missing"]:
        short = amount(shortage["resource"], shortage["missing"])
        yield "missing", f"{short} of flavor {shortage['flavor']}"
    holders = document["holders"]
    for number, item in enumerate(holders[:SHOWN]):
        yield "held by" if not number else "", holder(item, document["now"])
    if len(holders) > SHOWN:
        yield "", f"and {len(holders) - SHOWN} more"
    ahead = document.get("ahead") or ()
    yield "before it", ", ".join(ahead)
    yield "starts", start(document)
    yield "problem", away(document)


def waits(document: Document) -> str:
    """One sentence about a job that waits, for whoever follows it."""
    parts = [place(document) or document["local_queue"], reason(document), plainly(document)]
    held = [called(item) for item in document["holders"][:SHOWN]]
    parts += [f"held by {', '.join(held)}"] if held else []
    parts += [f"starts {when}"] if (when := start(document)) else []
    return f"job {document['workload']} waits: {'; '.join(filter(None, parts))}"


# A job, its attempts and events


def job_rows(job: Document) -> Iterator[tuple[str, Any]]:
    """Names and values about a job."""
    taken = amounts(job["takes"])
    yield "job", job["workload"]
    yield "name", job["job_name"]
    yield "owner", job["owner"]
    yield "recipe", job["recipe"]
    yield "command", job["command"]
    yield "queue", f"{job['namespace']}/{job['local_queue']}" if job["local_queue"] else "none"
    yield "ClusterQueue", job["cluster_queue"]
    yield "priority", f"{job['priority']} {job['priority_class']}".strip()
    yield "asks for", asked(job["pod_sets"])
    yield (
        "granted",
        "; ".join(
            f"{granted['count']} {granted['name']}: {amounts(granted['usage'])}" for granted in job["granted"]
        ),
    )
    yield "takes", f"{taken}: more than it asked for" if taken else ""
    yield "time limit", format.seconds(job["max_time"])
    yield "retry", retry(job)
    yield "status", job["status"]
    yield "reason", reason(job) if job["reason"] or job["message"] else ""
    yield "waits", plainly(job)
    yield "place", place(job)
    yield "submitted", format.clock(job["created"])
    yield "held quota", format.seconds(job["executed"]) if job["executed"] else ""
    for made in job["attempts_made"]:
        yield f"attempt {made['number']}", attempt(made)
    for number, past in enumerate(job["events"][-LATEST:]):
        yield "" if number else "events", event(past, short=True)
    yield "problem", away(job)


def in_short(job: Document) -> Iterator[tuple[str, Any]]:
    """The same of a job that Ray knows too."""
    shown = ("queue", "ClusterQueue", "retry", "priority", "granted", "takes", "time limit")
    yield from (row for row in job_rows(job) if row[0] in shown or row[0].startswith("attempt "))


def retry(job: Document) -> str:
    """Phase and retries of a job: `Resetting, 1 of 3 retries (FailedComponent), resumes at 12:00:03`."""
    document = job.get("retry") or {}
    policy = document.get("policy")
    if not document or (policy is None and not document["resets"]):
        return ""
    used = f"{document['retries']} of {policy['limit']} retries" if policy else "no retry policy"
    free = document["resets"] - document["retries"]
    parts = [document["phase"], used, f"{free} free of charge" if free else ""]
    parts += [document["reason"], ""] if document["reason"] else []
    if document["resumes_at"] is not None:
        parts.append(f"resumes at {format.clock(document['resumes_at'])}")
    return ", ".join(filter(None, parts))


def attempt(made: Document) -> str:
    """One attempt in words."""
    began, ended = made["started_at"] or made["admitted_at"], made["ended_at"]
    took = f" for {format.seconds(max(0.0, ended - began))}" if ended is not None else ""
    reason = made.get("reset") or made["evicted"]
    charge = (" charged" if made["charged"] else ", no retry charged") if made.get("reset") else ""
    evicted = f" ({reason}{charge})" if reason else ""
    status = made["ended"] or ("runs" if made["started_at"] else "is being started")
    return f"{made['submission_id']}  {format.clock(began)}{took}  {status}{evicted}"


def event(past: Document, *, short: bool = False) -> str:
    """One event in a line; the `short` form leaves the job out."""
    queue = past["cluster_queue"]
    where = "" if short else f" {past['workload']}{f' in {queue}' if queue else ''}"
    why = f" ({past['reason']})" if past["reason"] and past["reason"] != past["event"] else ""
    sentence = with_sentence(past["message"]) if past["event"] != "Admitted" else ""
    return f"{format.clock(past['at'])}  {past['event']:<11}{where}{why}{f'  {sentence}' if sentence else ''}"


def with_sentence(message: str) -> str:
    """A message of Kueue's form, followed by a sentence for people."""
    sentence = said(message)
    return f"{message} ({sentence})" if sentence else message


# Queues


def used(flavor: Document) -> str:
    """`1/2 nvidia.com/gpu`, with what is borrowed."""
    resource, amount_used, nominal = flavor["resource"], flavor["used"], flavor["nominal"]
    memory = resource == "memory"
    shown = [format.size(quantity) if memory else f"{quantity:g}" for quantity in (amount_used, nominal)]
    over = f" ({amount(resource, flavor['borrowed'])} borrowed)" if flavor["borrowed"] else ""
    return f"{'/'.join(shown)} {resource}{over}"


def queue_rows(kind: str, queue: Document) -> Iterator[tuple[str, Any]]:
    """Names and values about a ClusterQueue, a LocalQueue or a cohort."""
    yield kind, queue["name"]
    for name, key in QUEUE_FIELDS.items():
        yield name, queue.get(key)
    for flavor in queue.get("flavors", ()):
        limits = [
            f"{word} at most {amount(flavor['resource'], flavor[limit])}"
            for word, limit in (("borrows", "borrowing_limit"), ("lends", "lending_limit"))
            if flavor[limit] is not None
        ]
        yield f"flavor {flavor['flavor']}", ", ".join((used(flavor), *limits))
    yield "LocalQueues", ", ".join(queue.get("local_queues", ()))
