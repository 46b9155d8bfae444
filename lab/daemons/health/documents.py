"""Health as documents: what pages show, what is kept on disk, and a line of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.api.base import parse, plain
from lab.api.health import CheckView, DeviceView, Override
from lab.daemons.health.model import Change, CheckHealth, Health
from lab.errors import StateError


@dataclass(frozen=True)
class Kept:
    """All that outlives a controller."""

    devices: tuple[Health, ...] = ()
    overrides: tuple[Override, ...] = ()


def kept(states: Sequence[Health], overrides: Sequence[Override]) -> dict[str, object]:
    """The document that is kept."""
    document: dict[str, object] = plain(Kept(tuple(states), tuple(overrides)))
    return document


def read_kept(document: object) -> Kept:
    """The way back; of None nothing is kept. Raises StateError."""
    return parse(Kept, {} if document is None else document, "the stored health", StateError)


def device(item: Health) -> DeviceView:
    """One device as pages show it."""
    return DeviceView(
        node=item.node,
        device=item.device,
        model=item.model,
        state=item.state,
        reason=item.reason,
        message=item.message,
        since=item.since,
        heard=item.heard,
        checks=tuple(check(row) for row in item.checks),
    )


def check(item: CheckHealth) -> CheckView:
    """One check of a device, with its last result."""
    result = item.result
    return CheckView(
        name=result.check,
        state=item.state,
        since=item.since,
        last=result.state,
        value=result.value,
        unit=result.unit,
        message=result.message,
        evidence=result.evidence,
        at=result.at,
        interval=result.interval,
        ordered=result.ordered,
    )


def change(item: Change) -> dict[str, object]:
    """One change as a line of the log has it."""
    new = item.new
    return {"at": item.at, "node": new.node, "device": new.device, "state": new.state, "reason": new.reason}
