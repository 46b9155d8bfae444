"""The parts of the class's page: plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.api.receipt import ReceiptDocument
from lab.daemons.gateway.upstream import Reply
from lab.errors import LabError
from lab.host.quantities import format_duration
from lab.people.policy import Action
from lab.people.progress import Progress
from lab.people.registry import Person

WORKLOADS, QUEUES, HEALTH, NODES, JOBS = "/workloads", "/queues", "/health", "/api/v0/nodes", "/api/jobs/"
"""Pages of the gateway that the page is made of."""

May = Callable[[Action, str], bool]
"""Tells if whoever looks may do this to what belongs to a person, or with an empty name to the lab."""


@dataclass(frozen=True)
class Button:
    """Leads to the question whether something is to be done."""

    act: str
    on: str
    label: str


@dataclass(frozen=True)
class Cell:
    """A part of a row. What it says is in its words; the tone only repeats it."""

    text: str = ""
    tone: str = ""
    note: str = ""
    link: str = ""
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True)
class Table:
    """One part of the page."""

    title: str
    lead: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()
    empty: str = ""
    """Words in place of rows where there are none."""
    away: str = ""
    """Reason for which not all of it can be shown."""
    wide: bool = False
    """True where it keeps its columns on a narrow screen."""


@dataclass(frozen=True)
class Look:
    """All that one person's page is made of."""

    me: Person
    may: May
    owner: Callable[[str], str]
    """Gives the person whose namespace this is; empty for the lab's own."""
    people: Mapping[str, Person]
    seen: Mapping[str, float]
    """Name -> time of her last request."""
    now: float
    answers: Mapping[str, Reply]
    """Path of a page of the gateway -> its answer."""
    receipts: tuple[tuple[str, ReceiptDocument], ...] | LabError
    """Name -> receipt, the newest first; or the reason for which there are none."""
    progress: Progress | LabError
    breaks: bool = False
    """True where faults can be injected."""


def span(length: float) -> str:
    """A duration in words, without the seconds of one that is longer than a minute."""
    if length < 60:
        return f"{max(0.0, length):.0f} s"
    return format_duration(length // 60 * 60) if length < 2 * 86400 else f"{length / 86400:.0f} days"


def seconds(length: float | None) -> str:
    """Seconds of a recovery."""
    return "–" if length is None else f"{length:.1f} s"
