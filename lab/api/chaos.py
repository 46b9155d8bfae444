"""A schedule of chaos, as a person writes it in YAML: every scalar is text. docs/chaos.md explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from lab.api.base import Limits

Duration = Annotated[str, Limits(pattern=r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|)$")]
Figure = Annotated[str, Limits(pattern=r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$")]
Word = Annotated[str, Limits(min_length=1)]


def written(name: str) -> str:
    """How the file writes the name of a field: `with`, `below-one-worker`."""
    return name.rstrip("_").replace("_", "-")


class _InYaml:
    """A shape without unknown fields, whose names are those of the file."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = {"extra": "forbid", "alias_generator": written}


@dataclass(frozen=True)
class StepForm(_InYaml):
    """One fault at its time."""

    at: Duration
    fault: Word
    target: Word = ""
    share: Figure = "0"
    """Between 0 and 1."""
    with_: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleForm(_InYaml):
    """The whole file: it has either `faults`, to draw from, or `steps`, to follow.

    `every`, `seed` and `parameters` are for `faults`.
    """

    faults: Annotated[tuple[Word, ...], Limits(min_length=1)] | None = None
    steps: Annotated[tuple[StepForm, ...], Limits(min_length=1)] | None = None
    every: Duration | None = None
    seed: Annotated[str, Limits(pattern="^[0-9]{1,9}$")] | None = None
    limit: Annotated[str, Limits(pattern="^0*[1-9][0-9]{0,8}$")] | None = None
    until: Duration | None = None
    parameters: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    below_one_worker: Annotated[str, Limits(pattern="^(?i:true|false)$")] = "false"
