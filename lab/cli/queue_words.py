"""Documents of the queues in words: places, reasons, holders, and when a job could start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kueue.plainly import said
from lab.api.queue import (
    Attempt,
    Description,
    DryRun,
    EndView,
    ForecastView,
    HolderView,
    JobEvent,
    Listing,
    PodSetView,
    QueueEvent,
    Row,
    Why,
)
from lab.api.quotas import ClusterQueueView, CohortView, FlavorUse, LocalQueueView
from lab.cli import format

NEVER = {
    "ExceedsMaxQuota": "never: it asks for more than its queue can ever have",
    "NoMatchingFlavor": "never with these queues: none has a quota of what it asks for",
    "NoNodeFits": "never on these nodes",
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
"""Name -> field of what is shown of a queue, where it has it."""

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


def asked(pod_sets: Sequence[PodSetView]) -> str:
    """Demand of a job: `driver: 1 cpu; 2 workers (at least 1): 1 cpu, 1 nvidia.com/gpu each`."""
    return "; ".join(_pod_set(pod_set) for pod_set in pod_sets)


def _pod_set(pod_set: PodSetView) -> str:
    count, least = pod_set.count, pod_set.min_count
    wanted = amounts(pod_set.requests) or "nothing"
    if pod_set.name == "driver":
        return f"driver: {wanted}"
    fewer = f" (at least {least})" if least is not None and least < count else ""
    return f"{_counted(pod_set)}{fewer}: {wanted}{' each' if count > 1 else ''}"


def _counted(pod_set: PodSetView) -> str:
    """`1 worker`, `2 workers`; `driver`."""
    if pod_set.name == "driver":
        return "driver"
    return f"{pod_set.count} {pod_set.name.removesuffix('s') if pod_set.count == 1 else pod_set.name}"


def place(document: Row | DryRun) -> str:
    """`2nd of 5 in ClusterQueue a, 1st of 2 in LocalQueue b`."""
    of_cluster, of_local = (
        (document.of_cluster_queue, document.of_local_queue)
        if isinstance(document, Why | DryRun)
        else (None, None)
    )
    places = (
        (f"ClusterQueue {document.cluster_queue}", document.position_in_cluster_queue, of_cluster),
        (f"LocalQueue {document.local_queue}", document.position_in_local_queue, of_local),
    )
    return ", ".join(
        f"{ordinal(where)}{'' if of is None else f' of {of}'} in {queue}"
        for queue, where, of in places
        if where is not None
    )


def reason(document: Row | DryRun) -> str:
    """Reason and message in one."""
    return _reason(document.reason, document.message)


def _reason(word: str, message: str) -> str:
    return f"{word}: {message}" if word and message else word or message or "not tried yet"


def explained(document: Row) -> str:
    """The same of a job that does not wait, with a sentence for people."""
    return _reason(document.reason, with_sentence(document.message))


def called(document: Row | HolderView) -> str:
    """A job with its name and owner: `ann/job-x (sweep, of ann)`."""
    owner = document.owner
    more = ", ".join(filter(None, (document.job_name, f"of {owner}" if owner else "")))
    return f"{document.workload}{f' ({more})' if more else ''}"


def holder(document: HolderView, now: float) -> str:
    """One holder of what is missing."""
    held = "; ".join(amounts(usage) for usage in document.usage.values())
    since = document.since
    for_ = "" if since is None else f", for {format.seconds(max(0.0, now - since))}"
    queue = f" in {document.cluster_queue}"
    leaving = f", is being stopped ({document.leaving})" if document.leaving else ""
    return f"{called(document)}: {held}{queue}{for_}{leaving}"


def start(document: Why | DryRun) -> str:
    """When a job could start, and on what that rests; empty for one that does not wait."""
    forecast = document.forecast
    if forecast is None:
        return ""
    if forecast.at is None:
        return _not_known(document, forecast)
    ends = [_end(end) for end in forecast.ends]
    more = f" and {len(ends) - SHOWN} before them" if len(ends) > SHOWN else ""
    after = f", after {'; '.join(ends[-SHOWN:])}{more}" if ends else ""
    seconds = forecast.seconds or 0.0
    when = "at any moment" if seconds < 1 else f"in {format.seconds(seconds)} ({format.clock(forecast.at)})"
    return f"{when}{after}"


def _end(end: EndView) -> str:
    length = format.seconds(end.length)
    if end.basis == "time limit":
        return f"{end.workload} (time limit {length})"
    return f"{end.workload} (such jobs took {length}, median of {end.jobs})"


def _not_known(document: Why | DryRun, forecast: ForecastView) -> str:
    if forecast.why_not == "far":
        return "not known: too far ahead"
    if forecast.unknown:
        names = ", ".join(forecast.unknown[:SHOWN])
        verb = "have" if len(forecast.unknown) > 1 else "has"
        return f"not known: {names} {verb} no --max-time, and no such job has finished yet"
    return NEVER.get(document.reason, "not known: nothing that is foreseen makes room for it")


def away(document: Listing | Description | Why | DryRun) -> str:
    """Services that the controller cannot reach; empty when it reaches all."""
    silent = "; ".join(f"{name} does not answer ({why})" for name, why in document.away.items())
    return f"{silent}: nothing is admitted meanwhile" if silent else ""


def why_rows(document: Why | DryRun) -> Iterator[tuple[str, object]]:
    """Names and values about a job that waits, or would."""
    yield "place", place(document)
    yield "reason", reason(document)
    yield "waits", document.waits
    for missing in document.missing:
        yield "missing", f"{amount(missing.resource, missing.missing)} of flavor {missing.flavor}"
    for number, shortage in enumerate(document.holders[:SHOWN]):
        yield "held by" if not number else "", holder(shortage, document.now)
    if len(document.holders) > SHOWN:
        yield "", f"and {len(document.holders) - SHOWN} more"
    yield "before it", ", ".join(document.ahead) if isinstance(document, Why) else ""
    yield "starts", start(document)
    yield "problem", away(document)


def waits(document: Why) -> str:
    """One sentence about a job that waits, for whoever follows it."""
    parts = [place(document) or document.local_queue, reason(document), document.waits]
    held = [called(item) for item in document.holders[:SHOWN]]
    parts += [f"held by {', '.join(held)}"] if held else []
    parts += [f"starts {when}"] if (when := start(document)) else []
    return f"job {document.workload} waits: {'; '.join(filter(None, parts))}"


# A job, its attempts and events


def job_rows(job: Description) -> Iterator[tuple[str, object]]:
    """Names and values about a job."""
    taken = amounts(job.takes)
    yield "job", job.workload
    yield "name", job.job_name
    yield "owner", job.owner
    yield "recipe", job.recipe
    yield "command", job.command
    yield "queue", f"{job.namespace}/{job.local_queue}" if job.local_queue else "none"
    yield "ClusterQueue", job.cluster_queue
    yield "priority", f"{job.priority} {job.priority_class}".strip()
    yield "asks for", asked(job.pod_sets)
    yield (
        "granted",
        "; ".join(f"{granted.count} {granted.name}: {amounts(granted.usage)}" for granted in job.granted),
    )
    yield "takes", f"{taken}: more than it asked for" if taken else ""
    yield "time limit", format.seconds(job.max_time)
    yield "retry", retry(job)
    yield "status", job.status
    yield "reason", reason(job) if job.reason or job.message else ""
    yield "waits", job.waits
    yield "place", place(job)
    yield "submitted", format.clock(job.created)
    yield "held quota", format.seconds(job.executed) if job.executed else ""
    for made in job.attempts_made:
        yield f"attempt {made.number}", attempt(made)
    for number, latest in enumerate(job.events[-LATEST:]):
        yield "" if number else "events", event(latest)
    yield "problem", away(job)


def in_short(job: Description) -> Iterator[tuple[str, object]]:
    """The same of a job that Ray knows too."""
    shown = ("queue", "ClusterQueue", "retry", "priority", "granted", "takes", "time limit")
    yield from (row for row in job_rows(job) if row[0] in shown or row[0].startswith("attempt "))


def retry(job: Description) -> str:
    """Phase and retries of a job: `Resetting, 1 of 3 retries (FailedComponent), resumes at 12:00:03`."""
    state = job.retry
    if state is None or (state.policy is None and not state.resets):
        return ""
    used = f"{state.retries} of {state.policy.limit} retries" if state.policy else "no retry policy"
    free = state.resets - state.retries
    parts = [state.phase, used, f"{free} free of charge" if free else ""]
    parts += [state.reason, ""] if state.reason else []
    if state.resumes_at is not None:
        parts.append(f"resumes at {format.clock(state.resumes_at)}")
    return ", ".join(filter(None, parts))


def attempt(made: Attempt) -> str:
    """One attempt in words."""
    began, ended = made.started_at or made.admitted_at, made.ended_at
    took = f" for {format.seconds(max(0.0, ended - began))}" if ended is not None else ""
    reason = made.reset or made.evicted
    charge = (" charged" if made.charged else ", no retry charged") if made.reset else ""
    evicted = f" ({reason}{charge})" if reason else ""
    status = made.ended or ("runs" if made.started_at else "is being started")
    return f"{made.submission_id}  {format.clock(began)}{took}  {status}{evicted}"


def event(past: JobEvent | QueueEvent) -> str:
    """One event in a line; those of one job do not name it."""
    where = ""
    if isinstance(past, QueueEvent):
        where = f" {past.workload}{f' in {past.cluster_queue}' if past.cluster_queue else ''}"
    why = f" ({past.reason})" if past.reason and past.reason != past.event else ""
    sentence = with_sentence(past.message) if past.event != "Admitted" else ""
    return f"{format.clock(past.at)}  {past.event:<11}{where}{why}{f'  {sentence}' if sentence else ''}"


def with_sentence(message: str) -> str:
    """A message of Kueue's form, followed by a sentence for people."""
    sentence = said(message)
    return f"{message} ({sentence})" if sentence else message


# Queues


def used(flavor: FlavorUse) -> str:
    """`1/2 nvidia.com/gpu`, with what is borrowed."""
    resource, amount_used, nominal = flavor.resource, flavor.used, flavor.nominal
    memory = resource == "memory"
    shown = [format.size(quantity) if memory else f"{quantity:g}" for quantity in (amount_used, nominal)]
    over = f" ({amount(resource, flavor.borrowed)} borrowed)" if flavor.borrowed else ""
    return f"{'/'.join(shown)} {resource}{over}"


def queue_rows(
    kind: str, queue: ClusterQueueView | LocalQueueView | CohortView
) -> Iterator[tuple[str, object]]:
    """Names and values about a ClusterQueue, a LocalQueue or a cohort."""
    yield kind, queue.name
    for name, field in QUEUE_FIELDS.items():
        yield name, getattr(queue, field, None)
    for flavor in () if isinstance(queue, LocalQueueView) else queue.flavors:
        limits = [
            f"{word} at most {amount(flavor.resource, limit)}"
            for word, limit in (("borrows", flavor.borrowing_limit), ("lends", flavor.lending_limit))
            if limit is not None
        ]
        yield f"flavor {flavor.flavor}", ", ".join((used(flavor), *limits))
    yield "LocalQueues", ", ".join(queue.local_queues) if isinstance(queue, ClusterQueueView) else ""
