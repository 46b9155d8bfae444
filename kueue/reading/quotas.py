"""Readers of ClusterQueues, cohorts, LocalQueues, flavors and priority classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kueue import model
from kueue.model import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Fungibility,
    LocalQueue,
    PreemptionPolicy,
    PriorityClass,
    Quota,
    Requirement,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Toleration,
)
from kueue.reading.nodes import At, meant

STOPS = (model.NONE, model.HOLD, model.HOLD_AND_DRAIN)
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
KNOWN = ("cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/roce_gdr")
BUILT_IN = ("cpu", "memory", "ephemeral-storage", "pods")
BORROW = {"MayStopSearch": model.MAY_STOP_SEARCH, "TryNextFlavor": model.TRY_NEXT_FLAVOR}
CHECKS = "admission checks are run by controllers that the lab does not have"
CONCURRENT = "concurrent admission is alpha in Kueue"
TOPOLOGY = "topology-aware scheduling needs more than one machine"


def resource_name(at: At) -> str:
    """A resource; a name that only looks like a known one gets a warning."""
    name = at.qualified()
    if name in KNOWN:
        return name
    if name.lower() in KNOWN:
        message = f"{name}: names of resources are case-sensitive; nothing asks for this one"
        at.warn(message, meant(name, KNOWN))
    elif "/" not in name and name not in BUILT_IN and not name.startswith("hugepages-") and name:
        at.warn(f"{name}: no resource of Kubernetes has this name", meant(f"nvidia.com/{name}", KNOWN))
    return name


def cluster_queue(name: str, spec: At | None, old: bool) -> ClusterQueue:
    """A ClusterQueue; `old` is v1beta1."""
    queue = ClusterQueue(name, selector=None)
    if spec is None:
        return queue
    cohort = "cohort" if old else "cohortName"
    refused = {"admissionChecksStrategy": CHECKS, "concurrentAdmissionPolicy": CONCURRENT}
    if old:
        refused["admissionChecks"] = CHECKS
    given = spec.fields(
        (
            *("resourceGroups", cohort, "queueingStrategy", "namespaceSelector", "flavorFungibility"),
            *("preemption", "stopPolicy", "fairSharing", "admissionScope"),
        ),
        refused=refused,
    )
    if "namespaceSelector" in given:
        queue = replace(queue, selector=selector(given["namespaceSelector"]))
    else:
        spec.warn(
            "namespaceSelector is not there, so the queue takes workloads of no namespace",
            "write namespaceSelector: {} to take those of all",
        )
    parent = given[cohort].optional_name() if cohort in given else ""
    groups = resource_groups(given.get("resourceGroups"), "cohort", bool(parent), capped=True)
    queue = replace(queue, cohort=parent, groups=groups)
    if "queueingStrategy" in given:
        strategy = given["queueingStrategy"].choice((model.BEST_EFFORT_FIFO, model.STRICT_FIFO))
        queue = replace(queue, strategy=strategy)
    if "flavorFungibility" in given:
        queue = replace(queue, fungibility=_fungibility(given["flavorFungibility"], old))
    if "preemption" in given:
        queue = replace(queue, preemption=_preemption(given["preemption"]))
    if "admissionScope" in given:
        scope = given["admissionScope"].fields(("admissionMode",), required=("admissionMode",))
        if "admissionMode" in scope:
            modes = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
            queue = replace(queue, usage_based=scope["admissionMode"].choice(modes) == modes[0])
    return replace(queue, stop=_stop(given), weight=_weight(given))


def cohort(name: str, spec: At | None, old: bool) -> Cohort:
    """A cohort; `old` is v1beta1, in which the parent may be called so."""
    if spec is None:
        return Cohort(name)
    given = spec.fields(("parentName", "resourceGroups", "fairSharing", *(("parent",) if old else ())))
    at = given.get("parentName") or given.get("parent")
    parent = at.optional_name() if at is not None else ""
    groups = resource_groups(given.get("resourceGroups"), "parent", bool(parent), capped=False)
    return Cohort(name, parent, groups, _weight(given))


def local_queue(namespace: str, name: str, spec: At | None) -> LocalQueue:
    """A LocalQueue."""
    if spec is None:
        return LocalQueue(namespace, name, "")
    given = spec.fields(("clusterQueue", "stopPolicy", "fairSharing"), required=("clusterQueue",))
    queue = given["clusterQueue"].name() if "clusterQueue" in given else ""
    return LocalQueue(namespace, name, queue, _stop(given), _weight(given))


def flavor(name: str, spec: At | None) -> ResourceFlavor:
    """A ResourceFlavor."""
    if spec is None:
        return ResourceFlavor(name)
    given = spec.fields(("nodeLabels", "nodeTaints", "tolerations"), refused={"topologyName": TOPOLOGY})
    labels = given["nodeLabels"].labels() if "nodeLabels" in given else {}
    if len(labels) > 8:
        given["nodeLabels"].wrong(f"has {len(labels)} entries, must have at most 8")
    taints: list[Taint] = []
    for at in given["nodeTaints"].items(most=8) if "nodeTaints" in given else ():
        one = at.fields(("key", "value", "effect"), required=("key", "effect"), passed=("timeAdded",))
        taint = Taint(
            one["key"].qualified() if "key" in one else "",
            one["value"].text() if "value" in one else "",
            one["effect"].choice(EFFECTS) if "effect" in one else "",
        )
        if any((other.key, other.effect) == (taint.key, taint.effect) for other in taints):
            at.wrong(f"a taint {taint.key} with effect {taint.effect} is there already")
        taints.append(taint)
    return ResourceFlavor(name, labels, tuple(taints), tolerations(given.get("tolerations"), most=8))


def priority_class(name: str, at: At, *, pods: bool) -> PriorityClass:
    """A WorkloadPriorityClass, or of pods."""
    names = ("value", "description", *(("globalDefault",) if pods else ()))
    shared = ("apiVersion", "kind", "metadata", *(("preemptionPolicy",) if pods else ()))
    given = at.fields(names, required=("value",), passed=shared)
    words = given["description"].text() if "description" in given else ""
    if len(words) > 2048:
        given["description"].wrong("has more than 2048 characters")
    value = given["value"].integer() if "value" in given else 0
    default = given["globalDefault"].boolean() if "globalDefault" in given else False
    return PriorityClass(name, value, words, pods, default or (not pods and name == "default"))


# Parts


def resource_groups(
    at: At | None, parent: str, has_parent: bool, *, capped: bool
) -> tuple[ResourceGroup, ...]:
    """Resource groups; `capped` says that no more may be lent than the nominal quota."""
    groups: list[ResourceGroup] = []
    resources: set[str] = set()
    flavors: set[str] = set()
    for group in at.items(most=16) if at is not None else ():
        given = group.fields(("coveredResources", "flavors"), required=("coveredResources", "flavors"))
        covered = []
        for resource in given["coveredResources"].items(1, 64) if "coveredResources" in given else ():
            name = resource_name(resource)
            if name in resources:
                resource.wrong(f"duplicate: {name} is in a group already")
            resources.add(name)
            covered.append(name)
        all_quotas = []
        for entry in given["flavors"].items(1, 64) if "flavors" in given else ():
            quotas = _flavor_quotas(entry, covered, parent, has_parent, capped)
            if quotas.name in flavors:
                entry.wrong(f"duplicate: flavor {quotas.name} is in a group already")
            flavors.add(quotas.name)
            all_quotas.append(quotas)
        if sum(len(quota.quotas) for quota in all_quotas) > 512:
            group.wrong("has more than 512 combinations of flavor and resource")
        groups.append(ResourceGroup(tuple(covered), tuple(all_quotas)))
    if at is not None and (len(flavors) > 256 or len(resources) > 256):
        at.wrong("all groups together have more than 256 flavors or resources")
    return tuple(groups)


def _flavor_quotas(at: At, covered: list[str], parent: str, has_parent: bool, capped: bool) -> FlavorQuotas:
    given = at.fields(("name", "resources"), required=("name", "resources"))
    quotas: dict[str, Quota] = {}
    listed = given["resources"].items(1, 64) if "resources" in given else []
    if listed and len(listed) != len(covered):
        given["resources"].wrong(f"lists {len(listed)} resources, coveredResources has {len(covered)}")
    for place, item in enumerate(listed):
        one = item.fields(
            ("name", "nominalQuota", "borrowingLimit", "lendingLimit"), required=("name", "nominalQuota")
        )
        name = one["name"].qualified() if "name" in one else ""
        if place < len(covered) and name and name != covered[place]:
            one["name"].wrong(
                f"{name} must match the name in coveredResources, {covered[place]}", meant(name, covered)
            )
        nominal = one["nominalQuota"].amount(name) if "nominalQuota" in one else 0
        limits: dict[str, int | None] = {}
        for limit in ("borrowingLimit", "lendingLimit"):
            limits[limit] = one[limit].amount(name) if limit in one else None
            if limit in one and not has_parent:
                one[limit].wrong(f"must be nil when {parent} is empty")
        lending = limits["lendingLimit"]
        if capped and lending is not None and lending > nominal:
            one["lendingLimit"].wrong("must be less than or equal to the nominalQuota")
        quotas[name] = Quota(nominal, limits["borrowingLimit"], lending)
    return FlavorQuotas(given["name"].name() if "name" in given else "", quotas)


def _fungibility(at: At, old: bool) -> Fungibility:
    given = at.fields(("whenCanBorrow", "whenCanPreempt", "preference"))
    borrow = {**BORROW, "Borrow": model.MAY_STOP_SEARCH} if old else BORROW
    preempt = {**BORROW, "Preempt": model.MAY_STOP_SEARCH} if old else BORROW
    fungibility = Fungibility()
    if "whenCanBorrow" in given:
        fungibility = replace(fungibility, when_can_borrow=given["whenCanBorrow"].choice(borrow))
    if "whenCanPreempt" in given:
        fungibility = replace(fungibility, when_can_preempt=given["whenCanPreempt"].choice(preempt))
    if "preference" in given:
        preference = given["preference"].choice(("BorrowingOverPreemption", "PreemptionOverBorrowing"))
        fungibility = replace(fungibility, preference=preference)
        if {fungibility.when_can_borrow, fungibility.when_can_preempt} != {model.TRY_NEXT_FLAVOR}:
            given["preference"].wrong("requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor")
    return fungibility


def _preemption(at: At) -> PreemptionPolicy:
    given = at.fields(("withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort"))
    preemption = PreemptionPolicy()
    if "withinClusterQueue" in given:
        options = (model.NEVER, model.LOWER_PRIORITY, model.LOWER_OR_NEWER)
        preemption = replace(preemption, within=given["withinClusterQueue"].choice(options))
    if "reclaimWithinCohort" in given:
        options = (model.NEVER, model.LOWER_PRIORITY, model.ANY)
        preemption = replace(preemption, reclaim=given["reclaimWithinCohort"].choice(options))
    if "borrowWithinCohort" in given:
        borrow = given["borrowWithinCohort"].fields(("policy", "maxPriorityThreshold"))
        if "policy" in borrow:
            preemption = replace(
                preemption, borrow=borrow["policy"].choice((model.NEVER, model.LOWER_PRIORITY))
            )
        if "maxPriorityThreshold" in borrow:
            preemption = replace(preemption, threshold=borrow["maxPriorityThreshold"].integer())
        if preemption.borrow != model.NEVER and preemption.reclaim == model.NEVER:
            at.wrong("reclaimWithinCohort=Never and borrowWithinCohort.policy!=Never cannot be set together")
    return preemption


def _stop(given: Mapping[str, At]) -> str:
    return given["stopPolicy"].choice(STOPS) if "stopPolicy" in given else model.NONE


def _weight(given: Mapping[str, At]) -> float:
    fair = given["fairSharing"].fields(("weight",)) if "fairSharing" in given else {}
    if "weight" not in fair:
        return 1.0
    weight = fair["weight"].number()
    if weight < 0 or 0 < weight <= 1e-9:
        fair["weight"].wrong("must be 0 or more than 1e-9")
    return weight


def selector(at: At) -> tuple[Requirement, ...]:
    """A label selector."""
    given = at.fields(("matchLabels", "matchExpressions"))
    labels = given["matchLabels"].labels() if "matchLabels" in given else {}
    labelled = [Requirement(key, "In", (value,)) for key, value in labels.items()]
    if "matchExpressions" in given:
        labelled += requirements(given["matchExpressions"].items(), ("In", "NotIn", "Exists", "DoesNotExist"))
    return tuple(labelled)


def requirements(items: Iterable[At], operators: tuple[str, ...]) -> list[Requirement]:
    """Expressions over labels."""
    read = []
    for item in items:
        one = item.fields(("key", "operator", "values"), required=("key", "operator"))
        if "key" not in one or "operator" not in one:
            continue
        operator = one["operator"].choice(operators)
        values = tuple(value.text() for value in one["values"].items()) if "values" in one else ()
        if operator in ("In", "NotIn") and not values:
            item.wrong(f"{operator} needs values")
        if operator in ("Exists", "DoesNotExist") and values:
            item.wrong(f"{operator} takes no values")
        if operator in ("Gt", "Lt") and len(values) != 1:
            item.wrong(f"{operator} takes one value")
            continue
        read.append(Requirement(one["key"].qualified(), operator, values))
    return read


def tolerations(at: At | None, most: int | None = None) -> tuple[Toleration, ...]:
    """Tolerations of pods or of a flavor."""
    read = []
    for item in at.items(most=most) if at is not None else ():
        one = item.fields(("key", "operator", "value", "effect"), passed=("tolerationSeconds",))
        operator = one["operator"].choice(("Equal", "Exists")) if "operator" in one else "Equal"
        if "key" not in one and operator != "Exists":
            item.wrong("operator must be Exists when key is empty")
        read.append(
            Toleration(
                one["key"].qualified() if "key" in one else "",
                operator,
                one["value"].text() if "value" in one else "",
                one["effect"].choice(EFFECTS) if "effect" in one else "",
            )
        )
    return tuple(read)
