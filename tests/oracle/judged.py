"""The lab's decision about a scenario, in the form of the oracle's, and where the two differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kueue.engine import Engine
from kueue.item import FINISHED
from kueue.model import Admission, Setup
from kueue.places import Change
from kueue.quantity import amount
from kueue.reading import Read, read
from kueue.reasons import NO_MATCHING_FLAVOR
from tests.oracle.objects import Object

STEP = 10.0
"""Seconds between two cycles."""

Decision = dict[str, Any]
"""Who `holds` what, who is `preempted` or `pending` and why, who is `waiting` and `parked` where."""


def setup_of(objects: list[Object]) -> Setup:
    """The quotas and queues among the objects."""
    return _read(objects).setup


def decided(objects: list[Object], cycles: Sequence[Object], now: float) -> list[Decision]:
    """Let the lab decide in each cycle, after what happens before it."""
    arriving = [workload for events in cycles for workload in events.get("arrive", ())]
    given = _read([*objects, *arriving])
    workloads = {workload.key: workload for workload in given.workloads}
    late = {_key(workload) for workload in arriving}
    engine = Engine(given.setup)
    for key, workload in workloads.items():
        if key not in late:
            engine.submit(workload, now)
    _use(engine, objects, now)
    decisions = []
    for events in cycles:
        for key in events.get("finish", ()):
            if key in engine.items and engine.items[key].state != FINISHED:
                engine.finish(key, now)
        for arrival in events.get("arrive", ()):
            engine.submit(workloads[_key(arrival)], now)
        decisions.append(_decision(engine, engine.cycle(now)))
        engine.release_evicted(now)
        now += STEP
    return decisions


def _decision(engine: Engine, changes: list[Change]) -> Decision:
    events: dict[str, dict[str, list[str]]] = {"Preempted": {}, "Pending": {}}
    for change in changes:
        events.setdefault(change.event, {})[change.workload] = [change.reason, change.message]
    return {
        "holds": {
            key: _place(item.admission)
            for held in engine.snapshot.held.values()
            for key, item in held.items()
        },
        "preempted": events["Preempted"],
        "pending": events["Pending"],
        "waiting": _queued(engine, parked=False),
        "parked": _queued(engine, parked=True),
    }


def differences(ours: Sequence[Decision], theirs: Sequence[Decision]) -> list[str]:
    """What the lab decided otherwise than Kueue, in the first cycle in which it did.

    After the first, only who holds what and who is preempted is compared: the lab does not try again who
    would get the same answer.
    """
    for cycle, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        wrong = [
            f"{name}: {key}: {our[name].get(key)} instead of {their[name].get(key)} in cycle {cycle}"
            for name in (("holds", "preempted") if cycle else our)
            for key in sorted({*our[name], *their[name]})
            if our[name].get(key) != their[name].get(key)
        ]
        if wrong:
            return wrong
    return []


def in_numbers(theirs: Decision) -> Decision:
    """The oracle's answer with amounts as the lab counts them, and names in order."""
    for place in theirs["holds"].values():
        for pod_set in place["pod_sets"]:
            pod_set["usage"] = {name: amount(name, text) for name, text in pod_set["usage"].items()}
    for reason in theirs["pending"].values():
        reason[0] = reason[0] or NO_MATCHING_FLAVOR  # Kueue leaves it empty, which no API server takes
    for name in ("waiting", "parked"):
        theirs[name] = {queue: sorted(keys) for queue, keys in theirs[name].items()}
    return theirs


def _key(workload: Object) -> str:
    return f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"


def _read(objects: list[Object]) -> Read:
    given = read([("scenario", "\n---\n".join(json.dumps(item) for item in objects))])
    if given.errors:
        raise ValueError(f"the scenario is wrong: {given.errors[0]}")
    return given


def _use(engine: Engine, objects: list[Object], now: float) -> None:
    """Let LocalQueues have used what their status says."""
    if engine.history is None:
        return
    used = []
    for item in objects:
        if item["kind"] == "LocalQueue" and "status" in item:
            consumed = item["status"]["fairSharing"]["admissionFairSharingStatus"]["consumedResources"]
            amounts = {
                name: amount(name, text) / (1000 if name == "cpu" else 1) for name, text in consumed.items()
            }
            used.append([item["metadata"]["namespace"], item["metadata"]["name"], amounts])
    engine.history.restore({"sampled": now, "used": used})


def _place(admission: Admission | None) -> dict[str, Any]:
    assert admission is not None
    sets = [
        {
            "name": pod_set.name,
            "count": pod_set.count,
            "flavors": dict(pod_set.flavors),
            "usage": dict(pod_set.usage),
        }
        for pod_set in admission.pod_sets
    ]
    return {"cluster_queue": admission.cluster_queue, "pod_sets": sets}


def _queued(engine: Engine, *, parked: bool) -> dict[str, list[str]]:
    """ClusterQueue -> who is tried next, or waits for an event."""
    all_queued = {
        name: sorted(item.key for item in pending if pending.apart(item) == parked)
        for name, pending in engine.pending.items()
    }
    return {name: keys for name, keys in all_queued.items() if keys}
