"""Changes of quotas and queues: objects that come and go, each time checked as one whole."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kueue.capacity import overcommitted
from kueue.engine import Engine
from kueue.item import FINISHED
from kueue.model import ClusterQueue, Cohort, Setup
from kueue.reading import Read, read
from kueue.reading.nodes import Problem
from kueue.writing import Object, objects
from lab.errors import NotFoundError, RefusedError, UsageError

Key = tuple[str, str, str]
"""Kind, namespace and name; the Configuration has no name."""

HERE = "the lab's queues"
"""The file's name that stands for what is there already."""

LESS = "lower a nominalQuota, or delete queues that nobody needs: labctl queue delete"
"""Way out of quotas above what the lab has."""


class BadObjectsError(UsageError):
    """Objects that are wrong; nothing was changed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """`problems` are all of them."""
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}", problems[0].hint)
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Applied:
    """The setup after a change. `changes` is `created`, `configured`, `unchanged` or `deleted`, by object."""

    setup: Setup
    changes: Mapping[Key, str]
    warnings: tuple[Problem, ...] = ()

    def document(self) -> dict[str, Any]:
        """The answer to a request."""
        return {
            "objects": [
                {"kind": kind, "name": name, "namespace": namespace, "change": change}
                for (kind, namespace, name), change in self.changes.items()
            ],
            "warnings": [problem_document(each) for each in self.warnings],
        }


def problem_document(problem: Problem) -> dict[str, Any]:
    """One problem in an answer."""
    return {
        "file": problem.file,
        "line": problem.line,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
    }


def key_of(document: Object) -> Key:
    """The key of an object."""
    meta = document.get("metadata", {})
    return document["kind"], meta.get("namespace", ""), meta.get("name", "")


def documents(setup: Setup) -> dict[Key, Object]:
    """All objects of a setup by their keys."""
    return {key_of(each): each for each in objects(setup)}


def apply(
    setup: Setup, files: Sequence[tuple[str, str]], namespace: str, capacity: Mapping[str, int]
) -> Applied:
    """The setup with the objects of these files (name, text) in it, in place of those of the same names.

    Quotas above the lab's `capacity` are warned of. Raises BadObjectsError with everything that is wrong.
    """
    alone = read(files, namespace)
    wrong = [*alone.errors, *_refused(alone), *_moved(setup, alone)]
    if wrong:
        raise BadObjectsError(wrong)
    before = documents(setup)
    given = [_key(place) for place in alone.places]
    kept = [document for key, document in before.items() if key not in given]
    whole = read([(HERE, as_text(kept)), *files] if kept else files, namespace)
    if whole.errors:
        raise BadObjectsError(whole.errors)
    after = documents(whole.setup)
    changes = {}
    for key in given:
        same = before.get(key) == after.get(key)
        changes[key] = "unchanged" if same else "configured" if key in before else "created"
    warnings = [problem for problem in whole.warnings if problem.file != HERE]
    return Applied(whole.setup, changes, (*warnings, *_too_much(whole, alone, capacity)))


def _too_much(whole: Read, alone: Read, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Quotas above what the lab has, told of the last object of these files that adds to them."""
    owners = {("ClusterQueue", name) for name in alone.setup.cluster_queues}
    owners |= {("Cohort", name) for name in alone.setup.cohorts}
    for excess in overcommitted(whole.setup, capacity):
        places = [place for place in alone.places if place in owners and place[1] in excess.owners]
        if places:
            spot = alone.places[places[-1]]
            yield Problem(spot.file, spot.line, spot.path, str(excess), LESS)


def as_text(found: Iterable[Object]) -> str:
    """Objects as one YAML text."""
    return "\n---\n".join(json.dumps(each, ensure_ascii=False) for each in found)


def _key(place: tuple[str, ...]) -> Key:
    kind, *rest = place
    return kind, rest[0] if len(rest) > 1 else "", rest[-1] if rest else ""


def _refused(alone: Read) -> list[Problem]:
    hint = "submit a job: labctl submit --queue NAME"
    return [
        _at(alone, ("Workload", each.namespace, each.name), "a Workload cannot be applied", hint)
        for each in alone.workloads
    ]


def _moved(old: Setup, alone: Read) -> list[Problem]:
    """LocalQueues that would lead to another ClusterQueue than before."""
    found = []
    for door, queue in alone.setup.local_queues.items():
        before = old.local_queues.get(door)
        if before is not None and before.cluster_queue != queue.cluster_queue:
            told = f"spec.clusterQueue is immutable: it is {before.cluster_queue}, not {queue.cluster_queue}"
            hint = "make a LocalQueue of another name"
            found.append(_at(alone, ("LocalQueue", *door), told, hint))
    return found


def _at(found: Read, place: tuple[str, ...], message: str, hint: str) -> Problem:
    spot = found.places[place]
    return Problem(spot.file, spot.line, spot.path, f"{place[0]} {'/'.join(place[1:])}: {message}", hint)


def delete(setup: Setup, keys: Collection[Key], engine: Engine) -> Applied:
    """The setup without these. Raises NotFoundError; RefusedError for what is used, naming by whom."""
    before = documents(setup)
    for key in keys:
        if key not in before:
            kind, namespace, name = key
            raise NotFoundError(f"there is no {kind} {f'{namespace}/' if namespace else ''}{name}".rstrip())
    left = [document for key, document in before.items() if key not in keys]
    found = read([(HERE, as_text(left))]).setup if left else Setup()
    for kind, namespace, name in keys:
        users = _users(kind, namespace, name, found, engine)
        if users:
            shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
            told = f"{kind} {f'{namespace}/' if namespace else ''}{name} is used by {shown}"
            raise RefusedError(f"{told}; nothing was deleted", "delete these first, or let the jobs end")
    return Applied(found, dict.fromkeys(keys, "deleted"))


def _users(kind: str, namespace: str, name: str, left: Setup, engine: Engine) -> list[str]:
    """Everything in what is left that needs this object."""
    items = [each for each in engine.items.values() if each.state != FINISHED]
    if kind == "ResourceFlavor":
        owners: list[ClusterQueue | Cohort] = [*left.cluster_queues.values(), *left.cohorts.values()]
        return [
            f"{type(owner).__name__} {owner.name}"
            for owner in owners
            if any(flavor.name == name for group in owner.groups for flavor in group.flavors)
        ]
    if kind == "ClusterQueue":
        doors = [each for each in left.local_queues.values() if each.cluster_queue == name]
        found = [f"LocalQueue {each.namespace}/{each.name}" for each in doors]
        return found + [f"job {each.key}" for each in items if each.cluster_queue == name]
    if kind == "LocalQueue":
        return [f"job {each.key}" for each in items if each.queue == (namespace, name)]
    return []


def keys_in(given: Mapping[str, Any]) -> tuple[Key, ...]:
    """Keys in the body of a `delete`; a LocalQueue without a namespace is in `default`."""
    found = []
    for each in given["objects"]:
        kind = each["kind"]
        namespace = each.get("namespace", "") or "default" if kind == "LocalQueue" else ""
        found.append((kind, namespace, each.get("name", "")))
    return tuple(dict.fromkeys(found))
