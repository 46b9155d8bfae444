"""Labels, selectors, taints and tolerations, matched as Kubernetes does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kueue.model import PodSet, Requirement, ResourceFlavor, Taint, Toleration

BARRING = ("NoSchedule", "NoExecute")


def refusal(pod_set: PodSet, flavor: ResourceFlavor) -> str:
    """Kueue's words for why these pods cannot use this flavor; nothing where they can."""
    tolerations = (*pod_set.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        if taint.effect in BARRING and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return f"untolerated taint {taint} in flavor {flavor.name}"
    if not _selects(pod_set, flavor.labels):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def matches(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Tell if labels fulfil all the requirements."""
    return all(_fulfilled(requirement, labels) for requirement in requirements)


def _selects(pod_set: PodSet, labels: Mapping[str, str]) -> bool:
    """Evaluate node selector and affinity as far as they name labels of the flavor."""
    if any(labels[key] != value for key, value in pod_set.node_selector.items() if key in labels):
        return False
    terms = [[requirement for requirement in term if requirement.key in labels] for term in pod_set.affinity]
    return not terms or any(not term or matches(term, labels) for term in terms)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _fulfilled(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    value = labels.get(key)
    if operator == "DoesNotExist":
        return value is None
    if operator == "NotIn":
        return value not in values
    if value is None:
        return False
    if operator == "In":
        return value in values
    if operator in ("Gt", "Lt"):
        try:
            number, limit = int(value), int(values[0])
        except ValueError:
            return False
        return number > limit if operator == "Gt" else number < limit
    return True
