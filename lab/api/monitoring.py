"""Answers of Prometheus and Alertmanager, as far as the lab reads them; the names of fields are theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar


def _theirs(name: str) -> str:
    """`starts_at` as `startsAt`, `silence_id` as `silenceID`."""
    first, *rest = name.split("_")
    return first + "".join(part.upper() if part == "id" else part.capitalize() for part in rest)


class Theirs:
    """A shape whose fields are written as in Go."""

    __pydantic_config__: ClassVar[Mapping[str, Callable[[str], str]]] = {"alias_generator": _theirs}


@dataclass(frozen=True)
class AlertState(Theirs):
    """State of an alert: `active`, `suppressed` or `unprocessed`."""

    state: str


@dataclass(frozen=True)
class FiringAlert(Theirs):
    """An item of Alertmanager's `GET /api/v2/alerts`; `starts_at` is a time in RFC 3339."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: str
    status: AlertState


@dataclass(frozen=True)
class Silenced(Theirs):
    """Answer to Alertmanager's `POST /api/v2/silences`."""

    silence_id: str


@dataclass(frozen=True)
class Rule(Theirs):
    """A rule of alerts."""

    name: str


@dataclass(frozen=True)
class RuleGroup(Theirs):
    """Rules of one file."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class RulesData(Theirs):
    """All groups."""

    groups: tuple[RuleGroup, ...]


@dataclass(frozen=True)
class Rules(Theirs):
    """Prometheus' answer to `GET /api/v1/rules`."""

    data: RulesData
