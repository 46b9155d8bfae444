"""A live engine and what it is given, from written objects: it knows only what can be written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kueue.engine import Engine
from kueue.model import Setup, Workload
from kueue.places import Change
from kueue.reading import Read, read
from kueue.writing import Object


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


def setup_of(objects: Sequence[Object]) -> Setup:
    """The setup in v1beta2 objects. Raises ValueError for what cannot be read."""
    return _read(objects).setup


def workload_in(document: Object) -> Workload:
    """The workload in a v1beta2 object that holds no quota. Raises ValueError for what cannot be read."""
    (workload,) = _read([document]).workloads
    return workload


def _read(objects: Sequence[Object]) -> Read:
    text = "\n---\n".join(json.dumps(item, ensure_ascii=False) for item in objects)
    state = read([("state", text)]) if objects else Read()
    if state.errors:
        raise ValueError("; ".join(str(error) for error in state.errors[:3]))
    return state
