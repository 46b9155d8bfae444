"""Health as JSON: what agents send, what pages show, what is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lab.daemons.health.model import CheckHealth, Device, Health, Override, Result, StateChange
from lab.host.plain import build

Document = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """All that outlives a controller."""

    devices: tuple[Health, ...] = ()
    overrides: tuple[Override, ...] = ()


def kept(states: Sequence[Health], overrides: Sequence[Override]) -> Document:
    """The document that is kept."""
    return asdict(Kept(tuple(states), tuple(overrides)))


def read_kept(document: Mapping[str, Any] | None) -> Kept:
    """The way back. Raises ValueError, TypeError, KeyError."""
    return build(Kept, document or {})


def results(report: Mapping[str, Any]) -> list[Result]:
    """The results in an agent's report, which fits the schema."""
    return [build(Result, {**row, "value": _number(row.get("value"))}) for row in report["results"]]


def devices(report: Mapping[str, Any]) -> list[Device]:
    """The devices in an agent's report, which fits the schema."""
    return [build(Device, row) for row in report["devices"]]


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def health(item: Health) -> Document:
    """One device as pages show it."""
    return {
        "node": item.node,
        "device": item.device,
        "model": item.model,
        "state": item.state,
        "reason": item.reason,
        "message": item.message,
        "since": item.since,
        "heard": item.heard,
        "checks": [check(item_check) for item_check in item.checks],
    }


def check(item: CheckHealth) -> Document:
    """One check of a device, with its last result."""
    result = item.result
    return {
        "name": result.check,
        "state": item.state,
        "since": item.since,
        "last": result.state,
        "value": result.value,
        "unit": result.unit,
        "message": result.message,
        "evidence": dict(result.evidence),
        "at": result.at,
        "interval": result.interval,
        "ordered": result.ordered,
    }


def change(item: StateChange) -> Document:
    """One change as a line of the log has it."""
    new = item.new
    return {"at": item.at, "node": new.node, "device": new.device, "state": new.state, "reason": new.reason}
