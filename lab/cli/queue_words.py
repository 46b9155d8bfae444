"""Documents of the queues in words: places, reasons, holders, and when a job could start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kueue.plainly import said
from lab.cli import format

Document = Mapping[str, Any]

NEVER = {
    "ExceedsMaxQuota": "never: it asks for more than its queue can ever have",
    "NoMatchingFlavor": "never, as the queues are: none has quota of what it asks for",
    "Suspended": "not before its queue goes on",
    "Misconfigured": "not before its queue is there",
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
    return "; ".join(_pod_set(each) for each in pod_sets)


def _pod_set(each: Document) -> str:
    count, least = each["count"], each["min_count"]
    wanted = amounts(each["requests"]) or "nothing"
    if each["name"] == "driver":
        return f"driver: {wanted}"
    fewer = f" (at least {least})" if least is not None and least < count else ""
    return f"{_counted(each)}{fewer}: {wanted}{' each' if count > 1 else ''}"


def _counted(each: Document) -> str:
    """`1 worker`, `2 workers`; `driver`."""
    if each["name"] == "driver":
        return "driver"
    return f"{each['count']} {each['name'].removesuffix('s') if each['count'] == 1 else each['name']}"


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
    ends = [_end(each) for each in forecast["ends"]]
    more = f" and {len(ends) - SHOWN} before them" if len(ends) > SHOWN else ""
    after = f", after {'; '.join(ends[-SHOWN:])}{more}" if ends else ""
    seconds = forecast["seconds"]
    when = (
        "at any moment" if seconds < 1 else f"in {format.seconds(seconds)} ({format.clock(forecast['at'])})"
    )
    return f"{when}{after}"


def _end(each: Document) -> str:
    length = format.seconds(each["length"])
    if each["basis"] == "time limit":
        return f"{each['workload']} (time limit {length})"
    return f"{each['workload']} (such jobs took {length}, median of {each['jobs']})"


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
    told = "; ".join(f"{name} does not answer ({why})" for name, why in document.get("away", {}).items())
    return f"{told}: nothing is admitted meanwhile" if told else ""


def why_rows(document: Document) -> Iterator[tuple[str, Any]]:
    """Names and values about a job that waits, or would."""
    yield "place", place(document)
    yield "reason", reason(document)
    yield "waits", plainly(document)
    for each in document["missing"]:
        short = amount(each["resource"], each["missing"])
        yield "missing", f"{short} of flavor {each['flavor']}"
    found = document["holders"]
    for number, each in enumerate(found[:SHOWN]):
        yield "held by" if not number else "", holder(each, document["now"])
    if len(found) > SHOWN:
        yield "", f"and {len(found) - SHOWN} more"
    ahead = document.get("ahead") or ()
    yield "before it", ", ".join(ahead)
    yield "starts", start(document)
    yield "problem", away(document)


def waits(document: Document) -> str:
    """One sentence about a job that waits, for whoever follows it."""
    told = [place(document) or document["local_queue"], reason(document), plainly(document)]
    held = [called(each) for each in document["holders"][:SHOWN]]
    told += [f"held by {', '.join(held)}"] if held else []
    told += [f"starts {when}"] if (when := start(document)) else []
    return f"job {document['workload']} waits: {'; '.join(filter(None, told))}"


# A job, its attempts and events


def job_rows(found: Document) -> Iterator[tuple[str, Any]]:
    """Names and values about a job."""
    taken = amounts(found["takes"])
    yield "job", found["workload"]
    yield "name", found["job_name"]
    yield "owner", found["owner"]
    yield "recipe", found["recipe"]
    yield "command", found["command"]
    yield "queue", f"{found['namespace']}/{found['local_queue']}" if found["local_queue"] else "none"
    yield "ClusterQueue", found["cluster_queue"]
    yield "priority", f"{found['priority']} {found['priority_class']}".strip()
    yield "asks for", asked(found["pod_sets"])
    yield (
        "granted",
        "; ".join(f"{each['count']} {each['name']}: {amounts(each['usage'])}" for each in found["granted"]),
    )
    yield "takes", f"{taken}: more than it asked for" if taken else ""
    yield "time limit", format.seconds(found["max_time"])
    yield "retry", retry(found)
    yield "status", found["status"]
    yield "reason", reason(found) if found["reason"] or found["message"] else ""
    yield "waits", plainly(found)
    yield "place", place(found)
    yield "submitted", format.clock(found["created"])
    yield "held quota", format.seconds(found["executed"]) if found["executed"] else ""
    for each in found["attempts_made"]:
        yield f"attempt {each['number']}", attempt(each)
    for number, each in enumerate(found["events"][-LATEST:]):
        yield "" if number else "events", event(each, short=True)
    yield "problem", away(found)


def in_short(found: Document) -> Iterator[tuple[str, Any]]:
    """The same of a job that Ray knows too."""
    shown = ("queue", "ClusterQueue", "retry", "priority", "granted", "takes", "time limit")
    yield from (row for row in job_rows(found) if row[0] in shown or row[0].startswith("attempt "))


def retry(found: Document) -> str:
    """Phase and retries of a job: `Resetting, 1 of 3 retries (FailedComponent), resumes at 12:00:03`."""
    document = found.get("retry") or {}
    policy = document.get("policy")
    if not document or (policy is None and not document["resets"]):
        return ""
    used = f"{document['retries']} of {policy['limit']} retries" if policy else "no retry policy"
    free = document["resets"] - document["retries"]
    told = [document["phase"], used, f"{free} free of charge" if free else ""]
    told += [document["reason"], ""] if document["reason"] else []
    if document["resumes_at"] is not None:
        told.append(f"resumes at {format.clock(document['resumes_at'])}")
    return ", ".join(filter(None, told))


def attempt(each: Document) -> str:
    """One attempt in words."""
    began, ended = each["started_at"] or each["admitted_at"], each["ended_at"]
    took = f" for {format.seconds(max(0.0, ended - began))}" if ended is not None else ""
    reason = each.get("reset") or each["evicted"]
    charge = (" charged" if each["charged"] else ", no retry charged") if each.get("reset") else ""
    evicted = f" ({reason}{charge})" if reason else ""
    status = each["ended"] or ("runs" if each["started_at"] else "is being started")
    return f"{each['submission_id']}  {format.clock(began)}{took}  {status}{evicted}"


def event(each: Document, *, short: bool = False) -> str:
    """One event in a line; the `short` form leaves the job out."""
    queue = each["cluster_queue"]
    where = "" if short else f" {each['workload']}{f' in {queue}' if queue else ''}"
    why = f" ({each['reason']})" if each["reason"] and each["reason"] != each["event"] else ""
    told = with_sentence(each["message"]) if each["event"] != "Admitted" else ""
    return f"{format.clock(each['at'])}  {each['event']:<11}{where}{why}{f'  {told}' if told else ''}"


def with_sentence(message: str) -> str:
    """A message of Kueue's form, followed by a sentence for people."""
    sentence = said(message)
    return f"{message} ({sentence})" if sentence else message


# Queues


def used(flavor: Document) -> str:
    """`1/2 nvidia.com/gpu`, with what is borrowed."""
    resource, amount_used, nominal = flavor["resource"], flavor["used"], flavor["nominal"]
    memory = resource == "memory"
    shown = [format.size(each) if memory else f"{each:g}" for each in (amount_used, nominal)]
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
