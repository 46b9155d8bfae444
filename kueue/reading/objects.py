"""Objects of several texts put together: kinds, names, and what has to fit between objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kueue.model import (
    ClusterQueue,
    Cohort,
    Config,
    LocalQueue,
    PriorityClass,
    ResourceFlavor,
    Setup,
    Workload,
)
from kueue.reading import quotas
from kueue.reading.config import config
from kueue.reading.nodes import MOST_LEVELS, At, Problem, Problems, Spot, documents, meant
from kueue.reading.workloads import Drafted, workload

KUEUE = "kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
DEFAULT_NAMESPACE = "default"
NAMESPACED = ("LocalQueue", "Workload")

KINDS = {
    **dict.fromkeys(("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor"), KUEUE),
    **dict.fromkeys(("WorkloadPriorityClass", "Workload"), KUEUE),
    "Configuration": f"config.{KUEUE}",
    "PriorityClass": "scheduling.k8s.io",
    "Namespace": "",
    "List": "",
}
"""Kind -> group of its API."""

LEFT_OUT = {
    "AdmissionCheck": quotas.CHECKS,
    "ProvisioningRequestConfig": quotas.CHECKS,
    "Topology": quotas.TOPOLOGY,
    "MultiKueueConfig": "the lab is one cluster",
    "MultiKueueCluster": "the lab is one cluster",
}
METADATA = (
    *("labels", "resourceVersion", "generation", "managedFields", "finalizers", "ownerReferences"),
    *("generateName", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"),
)


@dataclass(frozen=True)
class Read:
    """Everything that was read. `workloads` are in the order of the files.

    `places` says where each object is: its kind, its namespace if it has one, and its name if it has one.
    """

    setup: Setup = field(default_factory=Setup)
    workloads: tuple[Workload, ...] = ()
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    places: Mapping[tuple[str, ...], Spot] = field(default_factory=dict)


def read(texts: Iterable[tuple[str, str]], namespace: str = DEFAULT_NAMESPACE) -> Read:
    """Read YAML texts, each with the name of its file. `namespace` is for objects that name none."""
    reader = _Reader(namespace, Problems())
    for file, text in texts:
        errors, empty = len(reader.problems.errors), True
        for at in documents(text, file, reader.problems):
            reader.document(at)
            empty = False
        if empty and errors == len(reader.problems.errors):
            reader.problems.warnings.append(Problem(file, 1, "", "the file holds no objects"))
    return reader.close()


def read_objects(objects: Iterable[At], namespace: str = DEFAULT_NAMESPACE) -> Read:
    """Read objects that were parsed already, such as those of Kueue among others; see `read`."""
    problems = Problems()
    reader = _Reader(namespace, problems)
    for at in objects:
        reader.document(At(at.node, at.file, at.path, problems))
    return reader.close()


class _Reader:
    def __init__(self, namespace: str, problems: Problems) -> None:
        self.namespace = namespace
        self.problems = problems
        self.queues: dict[str, ClusterQueue] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.local_queues: dict[tuple[str, str], LocalQueue] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.classes: list[PriorityClass] = []
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.config: Config | None = None
        self.drafts: list[Drafted] = []
        self.places: dict[tuple[str, ...], Spot] = {}

    def document(self, at: At) -> None:
        """Read one object, or each of a list."""
        given = at.mapping()
        if not given:
            return
        if "kind" not in given or "apiVersion" not in given:
            at.wrong(f"{'apiVersion' if 'kind' in given else 'kind'} is missing")
            return
        errors = len(self.problems.errors)
        kind, version = given["kind"].text(), given["apiVersion"].text()
        if len(self.problems.errors) > errors:
            return
        if kind.endswith("List") and (kind == "List" or kind[:-4] in KINDS):
            for item in given["items"].items() if "items" in given else ():
                self.document(item)
            return
        group, _, number = version.rpartition("/")
        if kind in LEFT_OUT and group == KUEUE:
            given["kind"].refuse(f"{kind} is left out by the lab: {LEFT_OUT[kind]}")
        elif kind not in KINDS:
            given["kind"].wrong(
                f"{kind} is a kind that the lab's queues do not know", meant(kind, list(KINDS))
            )
        elif group != KINDS[kind]:
            wanted = f"{KINDS[kind]}/" if KINDS[kind] else ""
            given["apiVersion"].wrong(
                f"{version} has no {kind}", f"did you mean {wanted}{self._number(kind)}?"
            )
        elif number not in (VERSIONS if KUEUE in group else ("v1",)):
            known = VERSIONS if KUEUE in group else ("v1",)
            given["apiVersion"].wrong(f"{version} is not read, only {' and '.join(known)}")
        else:
            self._object(kind, given, at, old=number == VERSIONS[0])

    @staticmethod
    def _number(kind: str) -> str:
        return VERSIONS[-1] if KUEUE in KINDS[kind] else "v1"

    def _object(self, kind: str, given: dict[str, At], at: At, *, old: bool) -> None:
        if kind == "Configuration":
            if self.config is not None:
                at.wrong(f"a second Configuration; the first is at {self._place('Configuration')}")
            self.places["Configuration",] = at.spot()
            self.config = config(at, old)
            return
        meta = self._metadata(kind, given, at)
        if meta is None:
            return
        name = meta["name"].name()
        space = meta["namespace"].name() if "namespace" in meta else self.namespace
        key = (kind, space, name) if kind in NAMESPACED else (kind, name)
        if key in self.places:
            where = f"; the other one is at {self._place(*key)}"
            hint = (
                "give each its metadata.namespace" if kind in NAMESPACED and "namespace" not in meta else ""
            )
            meta["name"].wrong(f"a second {kind} {'/'.join(key[1:])}{where}", hint)
            return
        self.places[key] = at.spot()
        if kind == "Workload":
            self.drafts.append(workload(space, name, at, meta, old))
            return
        if kind in ("PriorityClass", "WorkloadPriorityClass"):
            self.classes.append(quotas.priority_class(name, at, pods=kind == "PriorityClass"))
            return
        at.fields(("spec",), passed=("apiVersion", "kind", "metadata", "status"))
        spec = given.get("spec")
        if spec is not None and spec.null:
            spec = None
        if kind == "ClusterQueue":
            self.queues[name] = quotas.cluster_queue(name, spec, old)
        elif kind == "Cohort":
            self.cohorts[name] = quotas.cohort(name, spec, old)
        elif kind == "ResourceFlavor":
            self.flavors[name] = quotas.flavor(name, spec)
        elif kind == "Namespace":
            self.namespaces[name] = meta["labels"].texts() if "labels" in meta else {}
        elif spec is None:
            at.wrong("spec is missing")
        else:
            self.local_queues[space, name] = quotas.local_queue(space, name, spec)

    def _metadata(self, kind: str, given: dict[str, At], at: At) -> dict[str, At] | None:
        if "metadata" not in given:
            at.wrong("metadata is missing")
            return None
        known = ("name", "namespace", "uid", "creationTimestamp", "annotations", "labels")
        meta = given["metadata"].fields(known, required=("name",), passed=METADATA)
        if "namespace" in meta and kind not in NAMESPACED:
            meta["namespace"].warn(f"a {kind} is in no namespace; this one is not looked at")
        return meta if "name" in meta else None

    def _place(self, *key: str) -> str:
        at = self.places[key]
        return f"{at.file}:{at.line}"

    # Between objects

    def close(self) -> Read:
        """Check what has to fit together, and fill in what depends on other objects."""
        self._check_cohorts()
        self._check_queues()
        setup = Setup(
            self.queues,
            self.cohorts,
            self.local_queues,
            self.flavors,
            tuple(self.classes),
            self.namespaces,
            self.config or Config(),
        )
        first = (
            min((drafted.workload.created for drafted in self.drafts if drafted.created), default=1.0) - 1.0
        )
        workloads = []
        for order, draft in enumerate(self.drafts, 1):
            workload = draft.workload
            if not draft.created:
                workload = replace(workload, created=first, order=order)
            if not draft.priority:
                workload = replace(workload, priority=self._priority(draft))
            self._check_workload(draft, workload)
            workloads.append(workload)
        wrong, surprising = _sorted(self.problems.errors), _sorted(self.problems.warnings)
        return Read(setup, tuple(workloads), wrong, surprising, self.places)

    def _priority(self, draft: Drafted) -> int:
        """The priority of the class that is named, else of the default class, else 0."""
        if draft.ref is not None:
            for priority_class in self.classes:
                if (priority_class.name, priority_class.pods) == (draft.ref.name, draft.ref.pods):
                    return priority_class.value
            kind = "PriorityClass" if draft.ref.pods else "WorkloadPriorityClass"
            names = [
                priority_class.name
                for priority_class in self.classes
                if priority_class.pods == draft.ref.pods
            ]
            draft.ref.at.wrong(f"there is no {kind} {draft.ref.name}", meant(draft.ref.name, names))
            return 0
        defaults = sorted(
            (priority_class for priority_class in self.classes if priority_class.default),
            key=lambda priority_class: priority_class.pods,
        )
        return defaults[0].value if defaults else 0

    def _check_cohorts(self) -> None:
        for name in self.cohorts:
            line, seen = [name], {name}
            while (above := self.cohorts.get(line[-1])) is not None and above.parent:
                line.append(above.parent)
                if above.parent in seen or len(line) > MOST_LEVELS:
                    break
                seen.add(above.parent)
            at = self.places["Cohort", name]
            if len(line) > MOST_LEVELS:
                at.wrong(f"more than {MOST_LEVELS} cohorts are above it")
            elif len(seen) < len(line):
                circle = "cohorts that are their own parents"
                at.warn(f"leads into {circle}, {' > '.join(line)}, so the queues below admit nothing")

    def _check_queues(self) -> None:
        for name, queue in self.queues.items():
            at = self.places["ClusterQueue", name]
            for flavor_quotas in (flavor for group in queue.groups for flavor in group.flavors):
                if flavor_quotas.name not in self.flavors:
                    message = f"there is no ResourceFlavor {flavor_quotas.name}, so the queue admits nothing"
                    at.warn(message, meant(flavor_quotas.name, list(self.flavors)))
        for (space, name), local in self.local_queues.items():
            if local.cluster_queue not in self.queues:
                at = self.places["LocalQueue", space, name]
                message = f"there is no ClusterQueue {local.cluster_queue}, so its workloads wait for ever"
                at.warn(message, meant(local.cluster_queue, list(self.queues)))

    def _check_workload(self, draft: Drafted, workload: Workload) -> None:
        key = (workload.namespace, workload.queue)
        if key not in self.local_queues and workload.admission is None:
            names = [name for space, name in self.local_queues if space == workload.namespace]
            message = (
                f"namespace {workload.namespace} has no LocalQueue {workload.queue}, so it waits for ever"
            )
            draft.at.warn(message, meant(workload.queue, names))
        if workload.admission is None:
            return
        name = workload.admission.cluster_queue
        if name not in self.queues:
            hint = meant(name, list(self.queues))
            draft.at.wrong(f"holds quota of ClusterQueue {name}, which is not there", hint)
            return
        covered = {
            (flavor.name, resource)
            for group in self.queues[name].groups
            for flavor in group.flavors
            for resource in flavor.quotas
        }
        for place in workload.admission.usage():
            if tuple(place) not in covered:
                message = (
                    f"holds {place.resource} of flavor {place.flavor}, of which ClusterQueue {name} has none"
                )
                draft.at.warn(message, meant(place.flavor, [flavor for flavor, _ in sorted(covered)]))


def _sorted(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    return tuple(
        sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.path, problem.message))
    )
