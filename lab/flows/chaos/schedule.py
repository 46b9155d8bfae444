"""A plan as a YAML file. What is wrong in it is told with its line, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, NotFoundError, UsageError
from lab.flows.chaos.plan import Plan, Step, check_step
from lab.host.quantities import parse_duration
from lab.host.reading import SMALL, TooLargeError, read_json, read_text

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from yaml.nodes import Node

SCHEMA = Path(__file__).with_name("schema.json")
FORM = "the form of a schedule: docs/chaos.md"

FORMATS: dict[str, Callable[[Any], bool]] = {
    "duration": lambda text: 0 <= parse_duration(text) <= MAX_SECONDS,
    "period": lambda text: 0 < parse_duration(text) <= MAX_SECONDS,
    "share": lambda text: 0 <= float(text) <= 1,
}
"""Formats that the schema names; each check raises ValueError or UsageError, or returns False."""

MAX_SECONDS = 24 * 3600.0
MAX_NODES = 100_000
"""Limit of a document's size with its aliases spelled out: a few lines can be made of billions."""

Place = tuple[str | int, ...]
"""Way to a node of a document: keys and positions, from its root."""


def read_schedule(path: Path) -> Plan:
    """The plan in a file; docs/chaos.md has its form. Raises NotFoundError, UsageError with the line."""
    try:
        text = read_text(path, SMALL)
    except TooLargeError as error:
        raise UsageError(f"{path} is {error.strerror}: no schedule") from error
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror}", "a YAML file with faults or steps") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    return parse_schedule(text, str(path))


def parse_schedule(text: str, where: str) -> Plan:
    """The plan in a text; `where` is what errors call it. Raises UsageError with the line."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise UsageError(f"{where}: the file is empty", "name faults, or steps")
        return _plan(_Document(where, root))
    except RecursionError as error:
        raise UsageError(f"{where}, line 1: not a schedule: it is nested too deeply") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{where}, line {line}: not YAML: {error.reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UsageError(f"{where}, line {line}: not YAML: {problem}") from error


def _plan(document: _Document) -> Plan:
    document.validate()
    fields = document.data
    shared: dict[str, Any] = {
        "limit": int(fields["limit"]) if "limit" in fields else None,
        "seconds": parse_duration(fields["until"]) if "until" in fields else None,
        "below_one": fields.get("below-one-worker", "").lower() == "true",
    }
    if "steps" in fields:
        written = tuple(_step(step) for step in fields["steps"])
        for number, step in enumerate(written):
            document.check(step, ("steps", number, "fault"))
        if list(written) != sorted(written, key=lambda step: step.at):
            raise document.wrong("the steps must come in the order of their times", ("steps",))
        return Plan(written=written, **shared)
    kinds = tuple(fields["faults"])
    parameters = {kind: _numbers(given) for kind, given in fields.get("parameters", {}).items()}
    for kind in parameters:
        if kind not in kinds:
            what = f"`parameters` of {kind}, which is not among `faults`"
            raise document.wrong(what, ("parameters", kind))
    for number, kind in enumerate(kinds):
        document.check(Step(0.0, kind, parameters=parameters.get(kind, {})), ("faults", number))
    every = parse_duration(fields["every"]) if "every" in fields else Plan.every
    return Plan(kinds, every, int(fields.get("seed", Plan.seed)), parameters=parameters, **shared)


def _step(fields: dict[str, Any]) -> Step:
    return Step(
        at=parse_duration(fields["at"]),
        kind=fields["fault"],
        target=fields.get("target", ""),
        share=float(fields.get("share", 0)),
        parameters=_numbers(fields.get("with", {})),
    )


def _numbers(fields: dict[str, str]) -> dict[str, float]:
    return {name: float(value) for name, value in fields.items()}


class _Document:
    """A YAML document as plain data, in which every scalar is text, and the line of each place in it."""

    def __init__(self, where: str, root: Node) -> None:
        self._where = where
        self._lines: dict[Place, int] = {}
        self._key_lines: dict[Place, int] = {}
        self.data: Any = self._plain(root, ())

    def _plain(self, node: Any, place: Place) -> Any:
        self._lines[place] = node.start_mark.line + 1
        if len(self._lines) > MAX_NODES:
            raise self.wrong("not a schedule: it is too large", place)
        if node.id == "scalar":
            return str(node.value).strip()
        if node.id == "sequence":
            return [self._plain(child, (*place, number)) for number, child in enumerate(node.value)]
        values: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            inner = (*place, name)
            self._key_lines[inner] = key.start_mark.line + 1
            if name in values:
                raise self.wrong(f"`{name}` is given twice", place, line=self._key_lines[inner])
            values[name] = self._plain(value, inner)
        return values

    def validate(self) -> None:
        """Compare with the schema. Raises UsageError for the first thing that does not fit."""
        from jsonschema import Draft202012Validator, FormatChecker

        checker = FormatChecker(formats=())
        for name, check in FORMATS.items():
            checker.checks(name, raises=(TypeError, ValueError, UsageError))(check)
        validator = Draft202012Validator(read_json(SCHEMA), format_checker=checker)
        errors = sorted(validator.iter_errors(self.data), key=lambda error: len(error.absolute_path))
        if errors:
            raise self._misfit(min(errors, key=lambda error: self._lines[tuple(error.absolute_path)]))

    def _misfit(self, error: ValidationError) -> UsageError:
        place: Place = tuple(error.absolute_path)
        value: Any = error.instance
        schema: Any = error.schema
        what = schema.get("title") or f"`{place[-1]}`"
        if error.validator == "required":
            missing = next(name for name in schema["required"] if name not in value)
            return self.wrong(f"{what} needs `{missing}`", place)
        if error.validator == "additionalProperties":
            known = list(schema["properties"])
            name = next(name for name in value if name not in known)
            unknown = (*place, name)
            guess = "".join(f" (did you mean `{close}`?)" for close in get_close_matches(name, known, 1))
            why = f"{what} has no `{name}`{guess}; it has {', '.join(known)}"
            return self.wrong(why, place, line=self._key_lines[unknown])
        given = f", not {value!r}" if isinstance(value, str) and error.validator != "not" else ""
        return self.wrong(f"{what} {schema['description']}{given}", place)

    def check(self, step: Step, place: Place) -> None:
        """Refuse a step whose fault makes no sense in a chaos run. Raises UsageError."""
        try:
            check_step(step)
        except LabError as error:
            raise self.wrong(error.message, place, error.hint) from error

    def wrong(self, why: str, place: Place, hint: str = FORM, line: int | None = None) -> UsageError:
        """The error for the value at this place, or for a line of its own."""
        return UsageError(f"{self._where}, line {line or self._lines[place]}: {why}", hint)
