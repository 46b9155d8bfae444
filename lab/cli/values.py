"""Values that a person types: durations, numbers with limits, NAME=VALUE pairs. All raise UsageError."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import click

from lab.errors import UsageError
from lab.host.quantities import parse_duration
from lab.topology import check_lab_name

MAX_DURATION = 3600.0
"""Longest duration any option takes, in seconds."""


def _named(param: click.Parameter | None) -> str:
    """Name the option or argument as a person typed it."""
    if param is None:
        return "value"
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.make_metavar(_NO_CONTEXT).strip("[]")


_NO_CONTEXT = click.Context(click.Command("labctl"))


def _filled(value: object, param: click.Parameter | None) -> str:
    """The value as text. Raises UsageError for an empty one: it would silently mean the default."""
    text = str(value)
    if not text.strip():
        raise UsageError(
            f"{_named(param)} {text!r}: is empty",
            "give it a value, or leave it out; is a shell variable not set?",
        )
    return text


class Text(click.ParamType[str]):
    """A text that is not empty: a name, an id, a pair."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text. Raises UsageError."""
        return _filled(value, param)


class Place(click.Path):
    """A file or folder. An empty path would be the current folder."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(dir_okay=dir_okay, path_type=Path)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path. Raises UsageError."""
        return super().convert(_filled(value, param), param, ctx)


class LabName(click.ParamType[str]):
    """A lab's name."""

    name = "lab"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises UsageError."""
        check_lab_name(str(value))
        return str(value)


class Duration(click.ParamType[float]):
    """A duration in seconds: 500ms, 10s, 2m, 1h, or a plain number of seconds."""

    name = "duration"

    def __init__(self, *, zero: bool = False, most: float = MAX_DURATION) -> None:
        """Allow durations up to `most` seconds, and with `zero` a duration of zero."""
        self.zero, self.most = zero, most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds. Raises UsageError."""
        if isinstance(value, (int, float)):
            return float(value)
        try:
            seconds = parse_duration(str(value).strip().lower())
        except UsageError as error:
            raise UsageError(f"{_named(param)} {value}: not a duration", error.hint) from None
        if seconds < 0 or (seconds == 0 and not self.zero):
            least = "zero or more" if self.zero else "more than zero"
            raise UsageError(f"{_named(param)} {value}: must be {least}")
        if seconds > self.most:
            raise UsageError(f"{_named(param)} {value}: must be at most {hours(self.most)}")
        return seconds


def hours(seconds: float) -> str:
    """A long time in words."""
    return "1 hour" if seconds == MAX_DURATION else f"{seconds / 3600:g} hours"


class MemorySize(click.ParamType[int]):
    """An amount of memory as Kubernetes writes it, in bytes."""

    name = "memory"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes. Raises UsageError."""
        from kueue.quantity import amount

        try:
            size = amount("memory", str(value).strip())
        except ValueError:
            size = 0
        if size <= 0:
            raise UsageError(f"{_named(param)} {value}: not an amount of memory", "write 512Mi, 4Gi or 4G")
        return size


class WholeNumber(click.ParamType[int]):
    """A whole number within limits."""

    name = "number"

    def __init__(self, minimum: int, maximum: int) -> None:
        self.minimum, self.maximum = minimum, maximum

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Raises UsageError."""
        try:
            number = int(str(value))
        except ValueError:
            raise UsageError(f"{_named(param)} {value}: must be a whole number") from None
        if not self.minimum <= number <= self.maximum:
            raise UsageError(f"{_named(param)} {value}: must be between {self.minimum} and {self.maximum}")
        return number


class Amount(click.ParamType[float]):
    """An amount of a resource: a number from 0, fractions allowed."""

    name = "amount"

    def __init__(self, maximum: float) -> None:
        self.maximum = maximum

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The amount. Raises UsageError."""
        try:
            number = float(str(value))
        except ValueError:
            raise UsageError(f"{_named(param)} {value}: must be a number") from None
        if not math.isfinite(number) or not 0 <= number <= self.maximum:
            raise UsageError(f"{_named(param)} {value}: must be between 0 and {self.maximum:g}")
        return number


class JobName(click.ParamType[str]):
    """A job's name: it becomes part of object names and addresses."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises UsageError."""
        from lab.cluster.submission import check_job_name

        check_job_name(str(value), _named(param))
        return str(value)


def ports(pairs: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Parse `("s3=9000",)` as (name, number) pairs; LabSpec checks names and ranges. Raises UsageError."""
    by_name: dict[str, int] = {}
    for name, number in settings(pairs, "--port", "dashboard=8265").items():
        if not re.fullmatch(r"-?\d{1,9}", number):
            raise UsageError(f"--port {name}={number}: must be NAME=NUMBER", "as in --port dashboard=8265")
        if int(number) in by_name.values():
            raise UsageError(f"--port {name}={number}: number {number} is given to two ports")
        by_name[name] = int(number)
    return tuple(by_name.items())


def names(text: str, option: str, example: str, noun: str) -> tuple[str, ...]:
    """Parse `kill,pause` as names of such nouns, given with this option. Raises UsageError."""
    listed = tuple(name.strip() for name in text.split(","))
    if not all(listed):
        what = f"no {noun} is named" if not any(listed) else "a name is empty"
        raise UsageError(f"{option} {text!r}: {what}", f"for example {option} {example}")
    return listed


def numbers(pairs: tuple[str, ...]) -> dict[str, float]:
    """Parse `("delay=0.5",)` as a mapping of numbers. Raises UsageError."""
    by_name = {}
    for name, value in settings(pairs).items():
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(f"-p {name}={value}: must be a number", "units: labctl fault-inject --list")
        by_name[name] = number
    return by_name


def settings(pairs: tuple[str, ...], option: str = "-p", example: str = "epochs=5") -> dict[str, str]:
    """Parse `("epochs=3",)` as a mapping; errors name `option`. Raises UsageError."""
    by_name: dict[str, str] = {}
    for text in pairs:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text}: must be NAME=VALUE", f"for example {option} {example}")
        if name in by_name:
            raise UsageError(f"{option} {name} is given twice")
        by_name[name] = value
    return by_name
