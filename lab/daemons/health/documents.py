"""Health as documents: what pages show, and what is kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.api.base import parse, plain
from lab.api.health import CheckView, DeviceView, Override
from lab.daemons.health.model import CheckHealth, Health
from lab.errors import StateError


@dataclass(frozen=True)
class Kept:
    """All that outlives a controller."""

    devices: tuple[Health, ...] = ()
    overrides: tuple[Override, ...] = ()


def kept(states: Sequence[Health], overrides: Sequence[Override]) -> dict[str, object]:
    document: dict[str, object] = plain(Kept(tuple(states), tuple(overrides)))
    return document


def read_kept(document: object) -> Kept:
    """The way back; of None nothing is kept. Raises StateError."""
    return parse(Kept, {} if document is None else document, "the stored health", StateError)


def device(item: Health) -> DeviceView:
    return DeviceView(**{**vars(item), "checks": tuple(map(check, item.checks))})


def check(item: CheckHealth) -> CheckView:
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
