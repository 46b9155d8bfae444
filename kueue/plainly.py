"""Reasons in a sentence for people, beside the messages that have Kueue's form.

`said` reads a message, also one of long ago; `waits` adds who holds what is missing now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from kueue import reasons
from kueue.engine import Engine
from kueue.holders import Holder, Shortage, holders, shortages
from kueue.item import PENDING, Item
from kueue.quantity import CPU, parse, shown
from kueue.reading import DEFAULT_NAMESPACE

SHORT = re.compile(r"insufficient unused quota for (\S+) in flavor \S+, ([^\s,;]+) more needed")
TOO_BIG = re.compile(
    r"insufficient quota for (\S+) in flavor \S+, previously considered podsets requests \((\S+)\) "
    r"\+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
NO_NODE = re.compile(r"no node has (\S+) of (\S+), the largest has (\S+?)(?=[,;]|$)")
FEW_PLACES = re.compile(r"only (\d+) of (\d+) pods fit on the nodes at once")
UNCOVERED = re.compile(r"resource (\S+) unavailable in ClusterQueue")
UNSUITED = re.compile(r"doesn't match node affinity|untolerated taint|flavor \S+ not found")
PENDING_PREEMPTION = "Pending the preemption of"
PREEMPTED = re.compile(
    r"Preempted to accommodate a workload \(UID: (\S+?),.*\) due to (.+); preemptor path: (\S+);"
)

CAUSES = {
    reasons.CAUSES[reasons.IN_CLUSTER_QUEUE]: "comes before it in the same queue",
    reasons.CAUSES[reasons.RECLAMATION]: "takes back what its queue {queue} had lent",
    reasons.CAUSES[reasons.FAIR_SHARING]: "is of queue {queue}, which had less than its share",
    reasons.CAUSES[reasons.WHILE_BORROWING]: "is more urgent",
}
"""Cause of a preemption in a message -> what the other job does."""

WHOLE = (
    (reasons.NO_LONGER_FITS, "another job took the room first"),
    (reasons.OVERLAPPING_BUT_FITS, "room is being made for it and for another job"),
    (reasons.OVERLAPPING, "room is being made for another job first"),
    (reasons.PODS_NOT_READY, "jobs that came before it are still starting"),
    (reasons.NAMESPACE_MISMATCH, "its queue takes no jobs of its namespace"),
    ("Exceeded the PodsReady timeout", "it did not start in time"),
    (
        "exceeding the maximum number of re-queuing",
        "it did not start in time again, and is not tried any more",
    ),
)
"""Beginning of a message -> the sentence."""

STATES = (("is stopped", "its queue is stopped"), ("is inactive", "its queue admits nothing now"))
"""End of a message -> the sentence."""

SHOWN = 3
"""People who are named."""

WORDS = {CPU: "CPU", "memory": "memory", "pods": "pod"}

Name = Callable[[Holder], str]


def said(message: str) -> str:
    """A message in a sentence; empty for one that needs none."""
    sentence = _short(message) or _never(message) or _preempted(message)
    if not sentence:
        whole = (words for form, words in WHOLE if message.startswith(form))
        state = (words for form, words in STATES if message.endswith(form))
        sentence = next(whole, "") or next(state, "")
    return sentence


def waits(engine: Engine, item: Item, name: Name) -> str:
    """The reason why a workload waits, and who holds the quota that it needs; empty where it does not.

    `name` says whose a holder is.
    """
    reason, message = engine.condition(item)
    if item.state != PENDING or not message:
        return ""
    held = ""
    if reason == reasons.WAITING_FOR_QUOTA:
        short = shortages(engine, item)
        held = _held(engine, item, short, holders(engine, item, short), name)
    return "; ".join(filter(None, (said(message), held)))


def whose(holder: Holder) -> str:
    """The namespace of a holder, or the workload where that says nothing."""
    space = holder.local_queue[0]
    return holder.workload.partition("/")[2] if space == DEFAULT_NAMESPACE else space


# A message alone


def _short(message: str) -> str:
    """The least of each resource that is missing in a flavor."""
    needed: dict[str, Fraction] = {}
    for resource, amount in SHORT.findall(message):
        missing = parse(amount)
        needed[resource] = min(missing, needed.get(resource, missing))
    if not needed:
        return ""
    parts = [_counted(resource, needed[resource], " more") for resource in _ranked(needed)]
    several = len(parts) > 1 or _plural(next(iter(needed)), next(iter(needed.values())))
    made = "; room is being made for it" if PENDING_PREEMPTION in message else ""
    return f"{' and '.join(parts)} {'are' if several else 'is'} needed{made}"


def _never(message: str) -> str:
    """What keeps a workload from ever starting, as its queue is."""
    for resource, before, request, most in TOO_BIG.findall(message):
        asked = _counted(resource, parse(before) + parse(request))
        return f"it asks for {asked}, and its queue can have {_amount(resource, parse(most))} at most"
    if none := NO_NODE.search(message):
        request, resource, most = none.groups()
        wanted = _counted(resource, parse(request))
        return (
            f"no node has {wanted}, the largest has {_amount(resource, parse(most))}: it can never start here"
        )
    if few := FEW_PLACES.search(message):
        fit = (
            f"only {few[1]} of its {few[2]} parts fit on the nodes" if few[1] != "0" else "it fits on no node"
        )
        return f"{fit}, even if all were free: it can never start here"
    if uncovered := UNCOVERED.search(message):
        return f"its queue gives out no {_word(uncovered[1], plural=True)}"
    return "no kind of node that its queue has suits it" if UNSUITED.search(message) else ""


def _preempted(message: str) -> str:
    match = PREEMPTED.match(message)
    if match is None:
        return ""
    uid, cause, path = match.groups()
    return f"it gave way to {uid}, which {CAUSES.get(cause, cause).format(queue=path.rpartition('/')[2])}"


# Those who hold it


def _held(
    engine: Engine, item: Item, short: Iterable[Shortage], holding: Iterable[Holder], name: Name
) -> str:
    """The holders of the first resource that is missing: `ann holds both`, `ann holds 1, ben 2`."""
    missing = {shortage.place.resource: shortage.place for shortage in reversed(tuple(short))}
    if not missing:
        return ""
    place = missing[_ranked(missing)[0]]
    amounts: dict[str, int] = {}
    for holder in holding:
        if used := holder.usage.get(place, 0):
            amounts[name(holder)] = amounts.get(name(holder), 0) + used
    if not amounts:
        return ""
    (first, most), *others = sorted(amounts.items(), key=lambda pair: (-pair[1], pair[0]))
    scale = 1000 if place.resource == CPU else 1
    if not others:
        whole = most == engine.tree.queues[item.cluster_queue].potential(place)
        return f"{first} holds {_all(place.resource, Fraction(most, scale), whole)}"
    parts = [f"{who} {_amount(place.resource, Fraction(used, scale))}" for who, used in others]
    more = len(parts) - (SHOWN - 1)
    parts = parts[: SHOWN - 1] + ([f"and {more} other{'s' if more > 1 else ''}"] if more > 0 else [])
    return f"{first} holds {_amount(place.resource, Fraction(most, scale))}, {', '.join(parts)}"


def _all(resource: str, amount: Fraction, whole: bool) -> str:
    """An amount that somebody holds, where that is all there is in few words."""
    shown_amount = _amount(resource, amount)
    if not whole or resource == "memory":
        return shown_amount
    return {"1": "it", "2": "both"}.get(shown_amount, f"all {shown_amount}")


# Amounts


def _ranked(amounts: Mapping[str, object]) -> list[str]:
    """Resources, the scarcest kind first: GPUs, CPUs, memory, others."""
    order = {CPU: 1, "memory": 2}
    return sorted(amounts, key=lambda name: (0 if name.endswith("gpu") else order.get(name, 3), name))


def _word(resource: str, *, plural: bool) -> str:
    word = "GPU" if resource.lower().endswith("/gpu") else WORDS.get(resource, resource)
    return f"{word}s" if plural and word in ("GPU", "CPU", "pod") else word


def _plural(resource: str, amount: Fraction) -> bool:
    return resource != "memory" and amount != 1


def _amount(resource: str, amount: Fraction) -> str:
    return shown(resource, int(amount)) if resource == "memory" else f"{float(amount):g}"


def _counted(resource: str, amount: Fraction, more: str = "") -> str:
    """`1 more GPU`, `2 CPUs`, `3Gi more memory`."""
    return f"{_amount(resource, amount)}{more} {_word(resource, plural=_plural(resource, amount))}"
