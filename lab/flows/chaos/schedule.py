"""A plan as a YAML file. What is wrong in it is told with its line, before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, NotFoundError, UsageError
from lab.flows.chaos.plan import Plan, Step, check_step
from lab.host.quantities import parse_duration
from lab.host.reading import SMALL, TooLargeError, read_text

if TYPE_CHECKING:
    from yaml.nodes import Node

MAX_SECONDS = 24 * 3600.0


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
    return _Reader(where).plan(root)


class _Reader:
    """Reads nodes of a YAML document, which know their lines."""

    def __init__(self, where: str) -> None:
        self._where = where

    def plan(self, root: Node | None) -> Plan:
        if root is None:
            raise UsageError(f"{self._where}: the file is empty", "name faults, or steps")
        fields = self._mapping(root, "a schedule", KEYS)
        if ("steps" in fields) == ("faults" in fields):
            raise self._wrong(root, "name either `faults`, to draw from, or `steps`, to follow")
        if "steps" in fields:
            for name in ("every", "seed", "parameters"):
                if name in fields:
                    raise self._wrong(fields[name], f"`{name}` is for `faults`; steps say it themselves")
            written = tuple(self._step(node) for node in self._list(fields["steps"], "steps"))
            if list(written) != sorted(written, key=lambda step: step.at):
                raise self._wrong(fields["steps"], "the steps must come in the order of their times")
            return Plan(written=written, **self._shared(fields))
        kinds = []
        for node in self._list(fields["faults"], "faults"):
            kinds.append(self._text(node, "a fault"))
        parameters = self._parameters(fields.get("parameters"), kinds)
        for kind, node in zip(kinds, self._list(fields["faults"], "faults"), strict=True):
            self._checked(node, Step(0.0, kind, parameters=parameters.get(kind, {})))
        every = self._seconds(fields["every"], "every") if "every" in fields else Plan.every
        if every <= 0:
            raise self._wrong(fields["every"], "`every` must be more than zero")
        seed = self._whole(fields["seed"], "seed", 0) if "seed" in fields else 0
        return Plan(tuple(kinds), every, seed, parameters=parameters, **self._shared(fields))

    def _shared(self, fields: dict[str, Node]) -> dict[str, Any]:
        below = fields.get("below-one-worker")
        return {
            "limit": self._whole(fields["limit"], "limit", 1) if "limit" in fields else None,
            "seconds": self._seconds(fields["until"], "until") if "until" in fields else None,
            "below_one": self._flag(below) if below is not None else False,
        }

    def _step(self, node: Node) -> Step:
        fields = self._mapping(node, "a step", STEP_KEYS)
        for name in ("at", "fault"):
            if name not in fields:
                raise self._wrong(node, f"a step needs `{name}`")
        with_ = fields.get("with")
        given = self._mapping(with_, "`with`") if with_ is not None else {}
        target = self._text(fields["target"], "target") if "target" in fields else ""
        rank = self._number(fields["share"], "share") if "share" in fields else 0.0
        if not 0 <= rank <= 1:
            raise self._wrong(fields["share"], "`share` must be between 0 and 1")
        step = Step(
            at=self._seconds(fields["at"], "at"),
            kind=self._text(fields["fault"], "fault"),
            target=target,
            share=rank,
            parameters={name: self._number(value, name) for name, value in given.items()},
        )
        self._checked(fields["fault"], step)
        return step

    def _parameters(self, node: Node | None, kinds: list[str]) -> dict[str, dict[str, float]]:
        found = {}
        for kind, values in (self._mapping(node, "`parameters`") if node is not None else {}).items():
            if kind not in kinds:
                raise self._wrong(values, f"`parameters` of {kind}, which is not among `faults`")
            pairs = self._mapping(values, f"parameters of {kind}")
            found[kind] = {name: self._number(value, name) for name, value in pairs.items()}
        return found

    def _checked(self, node: Node, step: Step) -> None:
        try:
            check_step(step)
        except LabError as error:
            raise UsageError(f"{self._at(node)}: {error.message}", error.hint) from error

    def _mapping(self, node: Node, what: str, known: tuple[str, ...] = ()) -> dict[str, Node]:
        from yaml.nodes import MappingNode

        if not isinstance(node, MappingNode):
            raise self._wrong(node, f"{what} must be a mapping, `name: value`")
        found: dict[str, Node] = {}
        for key, value in node.value:
            name = str(key.value)
            if known and name not in known:
                raise self._wrong(key, f"{what} has no `{name}`; it has {', '.join(known)}")
            if name in found:
                raise self._wrong(key, f"`{name}` is given twice")
            found[name] = value
        return found

    def _list(self, node: Node, what: str) -> list[Node]:
        from yaml.nodes import SequenceNode

        if not isinstance(node, SequenceNode) or not node.value:
            raise self._wrong(node, f"`{what}` must be a list that is not empty")
        return list(node.value)

    def _text(self, node: Node, what: str) -> str:
        from yaml.nodes import ScalarNode

        if not isinstance(node, ScalarNode) or not str(node.value).strip():
            raise self._wrong(node, f"`{what}` must be a word")
        return str(node.value).strip()

    def _number(self, node: Node, what: str) -> float:
        text = self._text(node, what)
        if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE):
            raise self._wrong(node, f"`{what}` must be a number, not {text!r}")
        return float(text)

    def _whole(self, node: Node, what: str, least: int) -> int:
        text = self._text(node, what)
        if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
            raise self._wrong(node, f"`{what}` must be a whole number from {least}, not {text!r}")
        return int(text)

    def _seconds(self, node: Node, what: str) -> float:
        text = self._text(node, what)
        seconds = parse_duration(text)
        if seconds is None or text.startswith("-"):
            raise self._wrong(node, f"`{what}` must be a duration such as 30s or 2m, not {text!r}")
        if seconds > MAX_SECONDS:
            raise self._wrong(node, f"`{what}` must be at most 24 hours")
        return seconds

    def _flag(self, node: Node) -> bool:
        text = self._text(node, "below-one-worker").lower()
        if text not in ("true", "false"):
            raise self._wrong(node, f"`below-one-worker` must be true or false, not {text!r}")
        return text == "true"

    def _at(self, node: Node) -> str:
        return f"{self._where}, line {node.start_mark.line + 1}"

    def _wrong(self, node: Node, why: str) -> UsageError:
        return UsageError(f"{self._at(node)}: {why}", "the form of a schedule: docs/chaos.md")


KEYS = ("faults", "steps", "every", "seed", "limit", "until", "parameters", "below-one-worker")
STEP_KEYS = ("at", "fault", "target", "share", "with")
