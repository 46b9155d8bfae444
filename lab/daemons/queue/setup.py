"""Changes of quotas and queues: objects that come and go, each time checked as one whole."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kueue.capacity import overcommitted
from kueue.engine import Engine
from kueue.item import FINISHED
from kueue.model import ClusterQueue, Cohort, Setup
from kueue.reading import Read, read
from kueue.reading.nodes import Problem
from kueue.writing import Key, Object, key_of, objects
from lab.api.queue_requests import Changed, DeleteRequest, Misfit, ObjectChange
from lab.errors import NotFoundError, RefusedError, UsageError

HERE = "the lab's queues"
"""The file's name that stands for what is there already."""

LESS = "lower a nominalQuota, or delete queues that nobody needs: labctl queue delete"
"""Way out of quotas above what the lab has."""


class BadObjectsError(UsageError):
    """Objects that are wrong; nothing was changed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}", problems[0].hint)
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Applied:
    """The setup after a change. `changes` is `created`, `configured`, `unchanged` or `deleted`, by object."""

    setup: Setup
    changes: Mapping[Key, str]
    warnings: tuple[Problem, ...] = ()

    def document(self) -> Changed:
        return Changed(
            tuple(
                ObjectChange(kind, name, namespace, change)
                for (kind, namespace, name), change in self.changes.items()
            ),
            tuple(misfit(warning) for warning in self.warnings),
        )


def misfit(problem: Problem) -> Misfit:
    return Misfit(problem.file, problem.line, problem.path, problem.message, problem.hint)


def documents(setup: Setup) -> dict[Key, Object]:
    """All objects of a setup by their keys."""
    return {key_of(item): item for item in objects(setup)}


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


def as_text(items: Iterable[Object]) -> str:
    """Objects as one YAML text."""
    return "\n---\n".join(json.dumps(item, ensure_ascii=False) for item in items)


def _key(place: tuple[str, ...]) -> Key:
    kind, *rest = place
    return kind, rest[0] if len(rest) > 1 else "", rest[-1] if rest else ""


def _refused(alone: Read) -> list[Problem]:
    hint = "submit a job: labctl submit --queue NAME"
    return [
        _at(alone, ("Workload", workload.namespace, workload.name), "a Workload cannot be applied", hint)
        for workload in alone.workloads
    ]


def _moved(old: Setup, alone: Read) -> list[Problem]:
    """LocalQueues that would lead to another ClusterQueue than before."""
    problems = []
    for door, queue in alone.setup.local_queues.items():
        before = old.local_queues.get(door)
        if before is not None and before.cluster_queue != queue.cluster_queue:
            message = (
                f"spec.clusterQueue is immutable: it is {before.cluster_queue}, not {queue.cluster_queue}"
            )
            hint = "make a LocalQueue of another name"
            problems.append(_at(alone, ("LocalQueue", *door), message, hint))
    return problems


def _at(source: Read, place: tuple[str, ...], message: str, hint: str) -> Problem:
    spot = source.places[place]
    return Problem(spot.file, spot.line, spot.path, f"{place[0]} {'/'.join(place[1:])}: {message}", hint)


def delete(setup: Setup, keys: Collection[Key], engine: Engine) -> Applied:
    """The setup without these. Raises NotFoundError; RefusedError for what is used, naming by whom."""
    before = documents(setup)
    for key in keys:
        if key not in before:
            kind, namespace, name = key
            raise NotFoundError(f"there is no {kind} {f'{namespace}/' if namespace else ''}{name}".rstrip())
    left = [document for key, document in before.items() if key not in keys]
    remaining = read([(HERE, as_text(left))]).setup if left else Setup()
    for kind, namespace, name in keys:
        users = _users(kind, namespace, name, remaining, engine)
        if users:
            shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
            place = f"{kind} {f'{namespace}/' if namespace else ''}{name} is used by {shown}"
            raise RefusedError(f"{place}; nothing was deleted", "delete these first, or let the jobs end")
    return Applied(remaining, dict.fromkeys(keys, "deleted"))


def _users(kind: str, namespace: str, name: str, left: Setup, engine: Engine) -> list[str]:
    """Everything in what is left that needs this object."""
    items = [item for item in engine.items.values() if item.state != FINISHED]
    if kind == "ResourceFlavor":
        owners: list[ClusterQueue | Cohort] = [*left.cluster_queues.values(), *left.cohorts.values()]
        return [
            f"{type(owner).__name__} {owner.name}"
            for owner in owners
            if any(flavor.name == name for group in owner.groups for flavor in group.flavors)
        ]
    if kind == "ClusterQueue":
        queues = (queue for queue in left.local_queues.values() if queue.cluster_queue == name)
        users = [f"LocalQueue {queue.namespace}/{queue.name}" for queue in queues]
        return users + [f"job {item.key}" for item in items if item.cluster_queue == name]
    if kind == "LocalQueue":
        return [f"job {item.key}" for item in items if item.queue == (namespace, name)]
    return []


def keys_in(asked: DeleteRequest) -> tuple[Key, ...]:
    """Keys of these objects; a LocalQueue without a namespace is in `default`."""
    keys = [
        (item.kind, (item.namespace or "default") if item.kind == "LocalQueue" else "", item.name)
        for item in asked.objects
    ]
    return tuple(dict.fromkeys(keys))
