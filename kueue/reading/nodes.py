"""YAML values that know their place, and readers that say what is wrong, where, and what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from kueue.quantity import CPU, LARGEST, amount, parse

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
INT32 = 2**31 - 1
LONGEST = 1e9
"""Seconds of the longest duration: 31 years."""
YEAR_10000 = datetime(9999, 12, 31, tzinfo=timezone.utc).timestamp() + 24 * 3600
"""Seconds from 1970 to the first time that cannot be written."""
MOST_LEVELS = 100
"""Lists and mappings inside each other; PyYAML goes down once for each."""
MOST_ALIASED = 1_000_000
"""Values that the aliases of a file may stand for, aliases inside aliases counted each time."""

STRING, NULL, BOOL, INT, FLOAT = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float")
)
WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), NULL),
    **{
        form: BOOL
        for word in ("true", "false", "yes", "no", "on", "off")
        for form in (word, word.capitalize(), word.upper())
    },
}
WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0o?[0-7_]+|[0-9][0-9_]*)")
REAL = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, or that will probably surprise."""

    file: str
    line: int
    path: str
    message: str
    hint: str = ""
    left_out: bool = False
    """Kueue takes it, and only the lab does not."""

    def __str__(self) -> str:
        """File, line, path and message, in one line."""
        return f"{self.file}:{self.line}: {self.path + ': ' if self.path else ''}{self.message}"


@dataclass
class Problems:
    """All that was found so far."""

    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def meant(word: str, known: Sequence[str]) -> str:
    """`did you mean ...?`, where a known word is close; else nothing."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean {lowered[close[0]]}?" if close and lowered[close[0]] != word else ""


class Spot:
    """A place in a file, at which something can be wrong."""

    __slots__ = ("file", "line", "path", "problems")

    def __init__(self, file: str, line: int, path: str, problems: Problems) -> None:
        """`line` is counted from 1."""
        self.file, self.line, self.path, self.problems = file, line, path, problems

    def wrong(self, message: str, hint: str = "") -> None:
        """Note an error here."""
        self.problems.errors.append(Problem(self.file, self.line, self.path, message, hint))

    def refuse(self, message: str) -> None:
        """Note an error here about what Kueue takes and the lab does not."""
        problem = Problem(self.file, self.line, self.path, message, left_out=True)
        self.problems.errors.append(problem)

    def warn(self, message: str, hint: str = "") -> None:
        """Note something that will probably surprise."""
        self.problems.warnings.append(Problem(self.file, self.line, self.path, message, hint))


class At(Spot):
    """A YAML value at its place. A reader of a wrong value notes the error and returns something harmless."""

    __slots__ = ("node",)

    def __init__(self, node: Any, file: str, path: str, problems: Problems) -> None:
        """`node` is PyYAML's, composed without resolving its type."""
        super().__init__(file, node.start_mark.line + 1, path, problems)
        self.node = node

    def spot(self) -> Spot:
        """The place without the value, to be kept."""
        return Spot(self.file, self.line, self.path, self.problems)

    @property
    def tag(self) -> str:
        """The type of a scalar, as YAML 1.1 has it."""
        node = self.node
        if node.tag != STRING or node.style in ("'", '"', "|", ">"):
            return str(node.tag)
        if node.value in WORDS:
            return WORDS[node.value]
        if node.value[0] not in "+-.0123456789":
            return STRING
        return INT if WHOLE.fullmatch(node.value) else FLOAT if REAL.fullmatch(node.value) else STRING

    @property
    def null(self) -> bool:
        """Tell if the value is null or empty."""
        return self.node.id == "scalar" and self.tag == NULL

    # Containers

    def mapping(self) -> dict[str, At]:
        """Key -> value; a key that comes twice is an error, and so is anything but a mapping."""
        values: dict[str, At] = {}
        if self.node.id != "mapping":
            if not self.null:
                self.wrong(f"expected a mapping, found {self._shown()}")
            return values
        for key, value in self.node.value:
            name = str(key.value) if key.id == "scalar" else "?"
            inner = At(value, self.file, f"{self.path}.{name}" if self.path else name, self.problems)
            if name in values:
                At(key, self.file, inner.path, self.problems).wrong("comes twice")
            values[name] = inner
        return values

    def fields(
        self,
        known: Sequence[str],
        *,
        required: Sequence[str] = (),
        refused: Mapping[str, str] | None = None,
        passed: Sequence[str] = (),
    ) -> dict[str, At]:
        """The known fields that are given and not null. `passed` are allowed and not read.

        `refused` says of fields of Kueue why the lab does not take them; any other one is an error.
        """
        given = self.mapping()
        values = {}
        for name, value in given.items():
            if name in known:
                if not value.null:
                    values[name] = value
            elif refused is not None and name in refused:
                if not value.empty():
                    value.refuse(f"left out by the lab: {refused[name]}")
            elif name not in passed:
                value.wrong("unknown field", meant(name, [*known, *passed]))
        for name in required:
            if name not in values:
                self.wrong(f"{name} is missing")
        return values

    def empty(self) -> bool:
        """Tell if there is nothing in it: null, an empty list or an empty mapping."""
        return self.null or (self.node.id != "scalar" and not self.node.value)

    def items(self, least: int = 0, most: int | None = None) -> list[At]:
        """The values of a list."""
        if self.node.id != "sequence":
            if not self.null:
                self.wrong(f"expected a list, found {self._shown()}")
            return []
        count = len(self.node.value)
        if count < least or (most is not None and count > most):
            limits = f"at least {least}" if count < least else f"at most {most}"
            self.wrong(f"has {count} entries, must have {limits}")
        return [
            At(value, self.file, f"{self.path}[{place}]", self.problems)
            for place, value in enumerate(self.node.value)
        ]

    # Scalars

    def text(self) -> str:
        """A string; numbers and booleans are none."""
        if self.node.id != "scalar" or self.tag in (NULL, BOOL, INT, FLOAT):
            self.wrong(f"expected a string, found {self._shown()}")
            return ""
        return str(self.node.value)

    def name(self) -> str:
        """A name of an object."""
        known = len(self.problems.errors)
        text = self.text()
        if len(self.problems.errors) == known and (len(text) > 253 or not SUBDOMAIN.fullmatch(text)):
            self.wrong(f"{text!r} is not a name: lower case letters, digits, '-' and '.' only, at most 253")
        return text

    def optional_name(self) -> str:
        """A name, or nothing."""
        return "" if self.node.id == "scalar" and self.node.value == "" else self.name()

    def qualified(self) -> str:
        """A key of a label, or a name of a resource."""
        text = self.text()
        if not QUALIFIED.fullmatch(text):
            self.wrong(f"{text!r} is not a qualified name such as cpu or nvidia.com/gpu")
        return text

    def choice(self, options: Mapping[str, str] | Sequence[str]) -> str:
        """One of some words; a mapping says under what name each is known."""
        text = self.text()
        if text in options:
            return options[text] if isinstance(options, Mapping) else text
        self.wrong(f"{text!r} is none of {', '.join(options)}", meant(text, list(options)))
        return next(iter(options))

    def boolean(self) -> bool:
        """`true` or `false`."""
        if self.node.id != "scalar" or self.tag != BOOL:
            self.wrong(f"expected true or false, found {self._shown()}")
            return False
        return str(self.node.value).lower() in ("true", "yes", "on")

    def integer(self, least: int = -INT32 - 1, most: int = INT32) -> int:
        """A whole number within limits."""
        if self.node.id != "scalar" or self.tag != INT:
            self.wrong(f"expected a whole number, found {self._shown()}")
            return least
        try:
            value = int(str(self.node.value).replace("_", ""), 0)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            self.wrong(f"{self.node.value} is out of range: from {least} to {most}")
            return least
        return value

    def amount(self, resource: str) -> int:
        """A quantity of a resource, not negative."""
        text = self._scalar()
        try:
            value = amount(resource, text)
        except ValueError as error:
            self.wrong(str(error))
            return 0
        if value < 0:
            self.wrong(f"{self.node.value} is negative: must be 0 or more")
        elif resource != CPU and parse(text) != value < LARGEST:
            self.warn(f"{self.node.value} of {resource} counts as {value}: only cpu is shared in parts")
        return max(0, value)

    def number(self) -> float:
        """A number, also written as a quantity such as 500m."""
        try:
            return float(parse(self._scalar()))
        except ValueError as error:
            self.wrong(str(error))
        except OverflowError:
            self.wrong(f"{self.node.value} is too large")
        return 0.0

    def duration(self) -> float:
        """Seconds of a duration such as 30s, 5m or 1h30m; a bare number is seconds."""
        text = self._scalar()
        seconds = -1.0
        if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
            seconds = float(text)
        elif text and not DURATION.sub("", text):
            seconds = round(sum(float(number) * UNITS[unit] for number, unit in DURATION.findall(text)), 9)
        if not 0 <= seconds <= LONGEST:
            self.wrong(f"{text!r} is not a duration: write 30s, 5m, 1h30m or a number of seconds")
            return 0.0
        return seconds

    def time(self) -> float:
        """Seconds since 1970 of a time such as 2026-01-31T12:00:00Z."""
        text = self._scalar().strip().replace(" ", "T")
        if text.endswith(("Z", "z")):
            text = text[:-1] + "+00:00"
        text = re.sub(r"\.(\d{1,6})\d*", lambda match: f".{match[1]:0<6}", text)
        try:
            parsed = datetime.fromisoformat(text)
            seconds = (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < YEAR_10000:
            self.wrong(f"{self._scalar()!r} is not a time since 1970: write 2026-01-31T12:00:00Z")
            return 0.0
        return seconds

    def texts(self) -> dict[str, str]:
        """A mapping of strings, as labels are."""
        return {name: value.text() for name, value in self.mapping().items()}

    def labels(self) -> dict[str, str]:
        """Labels: keys and values of a limited form."""
        labels = {}
        for name, value in self.mapping().items():
            labels[name] = value.text()
            if not QUALIFIED.fullmatch(name):
                value.wrong(f"{name!r} is not a key of a label")
            elif not LABEL.fullmatch(labels[name]):
                value.wrong(f"{labels[name]!r} is not a value of a label")
        return labels

    def _scalar(self) -> str:
        if self.node.id != "scalar" or self.null:
            self.wrong(f"expected a value, found {self._shown()}")
            return "0"
        return str(self.node.value)

    def _shown(self) -> str:
        if self.node.id == "scalar":
            return "nothing" if self.null else repr(self.node.value)
        return f"a {'list' if self.node.id == 'sequence' else 'mapping'}"


def documents(text: str, file: str, problems: Problems) -> Iterator[At]:
    """Every document of a YAML text; one that is no YAML is an error with its line."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    if (unsafe := _unsafe(text, loader)) is not None:
        line, reason = unsafe
        problems.errors.append(Problem(file, line, "", f"not read: {reason}"))
        return
    try:
        for node in yaml.compose_all(text, Loader=loader):
            if node is not None and not (at := At(node, file, "", problems)).null:
                yield at
    except yaml.reader.ReaderError as error:
        line = text.encode().count(b"\n", 0, error.position) + 1
        problems.errors.append(Problem(file, line, "", f"not YAML: {error.reason}"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        problems.errors.append(Problem(file, line, "", f"not YAML: {error.problem or error.context}"))


def _unsafe(text: str, loader: Any) -> tuple[int, str] | None:
    """Line of, and words about, what would make reading crash or never end: its depth or its aliases.

    A text that is no YAML is safe up to there.
    """
    import yaml

    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    size = aliased = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if type(event) is yaml.ScalarEvent:  # most are
                size += 1
                continue
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.CollectionEndEvent):
                anchor, before = opened.pop()
                if anchor is not None:
                    sizes[anchor] = size - before
            elif isinstance(event, yaml.AliasEvent):
                if any(anchor == event.anchor for anchor, _ in opened):
                    return line, f"*{event.anchor} stands for something that it is part of"
                size += (times := sizes.get(event.anchor or "", 1))
                aliased += times
                if aliased > MOST_ALIASED:
                    return line, f"its aliases stand for more than {MOST_ALIASED} values"
            elif isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, size))
                size += 1
                if len(opened) > MOST_LEVELS:
                    return line, f"nested deeper than {MOST_LEVELS} levels"
    except yaml.YAMLError:
        pass
    return None
