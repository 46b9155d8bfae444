"""The smallest form of a scenario that both decide differently: without what does not matter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]

OPTIONAL = (
    *(
        "parentName",
        "cohortName",
        "borrowingLimit",
        "lendingLimit",
        "fairSharing",
        "minCount",
        "quotaCheckStrategy",
    ),
    *("nodeSelector", "tolerations", "nodeLabels", "nodeTaints", "admissionFairSharing"),
    *("cpu", "pods", "nvidia.com/gpu", "example.com/fpga", "preference", "maxPriorityThreshold", "status"),
)
"""Fields that may be left out, and mean the same to both then."""

ALWAYS = ("Configuration", "Namespace")
"""Kinds of objects that stay."""

PLAINER = {
    "LowerPriority": "Never",
    "LowerOrNewerEqualPriority": "Never",
    "Any": "Never",
    "TryNextFlavor": "MayStopSearch",
    "StrictFIFO": "BestEffortFIFO",
}


def smallest(objects: list[Any], differs: Callable[[list[Any]], bool]) -> list[Any]:
    """Leave out one thing after the other, as long as the decisions differ."""
    changed = True
    while changed:
        changed = False
        for path in reversed(list(_paths(objects))):
            smaller = _without(objects, path)
            if smaller is not None and _still(smaller, differs):
                objects, changed = smaller, True
    return objects


def _still(objects: list[Any], differs: Callable[[list[Any]], bool]) -> bool:
    try:
        return differs(objects)
    except (ValueError, KeyError, AssertionError):
        return False


def _paths(tree: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in the objects, those above before those below; what holds quota stays as it is."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        if path[-1:] != ("containers",) and (path or tree[key]["kind"] not in ALWAYS):
            yield (*path, key)
        if path or "admission" not in tree[key].get("status", ()):
            yield from _paths(tree[key], (*path, key))


def _without(objects: list[Any], path: Path) -> list[Any] | None:
    """The objects without what is there, or with something plainer; None where it has to stay."""
    smaller = copy.deepcopy(objects)
    parent: Any = smaller
    try:
        for key in path[:-1]:
            parent = parent[key]
        value = parent[path[-1]]
    except (KeyError, IndexError):
        return None
    if isinstance(parent, list) and len(parent) == 1:
        return None
    if isinstance(path[-1], int) or path[-1] in OPTIONAL:
        del parent[path[-1]]
    elif isinstance(value, str) and value in PLAINER:
        parent[path[-1]] = PLAINER[value]
    elif (path[-1] == "count" and value > 1) or (path[-1] == "priority" and value):
        parent[path[-1]] = value - 1
    else:
        return None
    return smaller
