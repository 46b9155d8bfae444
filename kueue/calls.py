"""Calls into a live engine by name, with plain JSON: the engine knows only what can be written and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kueue.engine import Engine
from kueue.model import FlavorResource, Setup, Workload
from kueue.places import Change
from kueue.reading import Read, read
from kueue.writing import Object


@dataclass(frozen=True)
class Call:
    """One call: its time in seconds since the epoch, its name, and its arguments as plain JSON."""

    at: float
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def begin(
    documents: Sequence[Object], now: float, history: Mapping[str, Any] | None = None
) -> tuple[Engine, list[Change]]:
    """A live engine that goes on with these objects and workloads, as their status has them.

    `history` is the usage of LocalQueues over time. Raises ValueError, KeyError for damaged ones.
    """
    known = _read(documents)
    engine = Engine(known.setup, live=True)
    if engine.history is not None and history:
        engine.history.restore(history)
    changes = []
    for workload in known.workloads:
        changes += engine.submit(workload, now)
    changes += engine.drain(now)
    return engine, changes


def perform(engine: Engine, call: Call) -> list[Change]:
    """Make a call. Raises KeyError for an unknown one, ValueError for arguments that are damaged."""
    return CALLS[call.name](engine, call.arguments, call.at)


def setup_of(objects: Sequence[Object]) -> Setup:
    """The setup in v1beta2 objects. Raises ValueError for what cannot be read."""
    return _read(objects).setup


def workload_of(document: Object) -> Workload:
    """The workload in a v1beta2 object that holds no quota. Raises ValueError for what cannot be read."""
    (workload,) = _read([document]).workloads
    return workload


def _read(objects: Sequence[Object]) -> Read:
    text = "\n---\n".join(json.dumps(item, ensure_ascii=False) for item in objects)
    state = read([("state", text)]) if objects else Read()
    if state.errors:
        raise ValueError("; ".join(str(error) for error in state.errors[:3]))
    return state


def _submit(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    return engine.submit(workload_of(given["workload"]), now)


def _finish(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    return engine.finish(given["workload"], now, given["reason"], given["message"])


def _forget(engine: Engine, given: Mapping[str, Any], _: float) -> list[Change]:
    engine.forget(given["workloads"])
    return []


def _set_ready(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    engine.set_ready(given["workload"], given["ready"], now)
    return []


def _set_active(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    return engine.set_active(given["workload"], given["active"], now)


def _evict(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    return engine.evict(engine.items[given["workload"]], now, given["reason"], given["message"])


def _gone(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    return engine.gone(given["workload"], now, given["message"])


def _apply(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    setup = replace(setup_of(given["objects"]), lost=engine.setup.lost)
    return [*engine.apply(setup, now), *engine.drain(now)]


def _lose(engine: Engine, given: Mapping[str, Any], now: float) -> list[Change]:
    """Go on with so much capacity lost: rows of flavor, resource, amount."""
    lost = {FlavorResource(flavor, resource): amount for flavor, resource, amount in given["lost"]}
    return engine.apply(replace(engine.setup, lost=lost), now)


def _sample(engine: Engine, _: Mapping[str, Any], now: float) -> list[Change]:
    engine.sample(now)
    return []


CALLS: Mapping[str, Callable[[Engine, Mapping[str, Any], float], list[Change]]] = {
    "submit": _submit,
    "finish": _finish,
    "forget": _forget,
    "set_ready": _set_ready,
    "set_active": _set_active,
    "evict": _evict,
    "gone": _gone,
    "apply": _apply,
    "lose": _lose,
    "sample": _sample,
    "due": lambda engine, _, now: engine.due(now),
    "settle": lambda engine, _, now: engine.settle(now),
}
