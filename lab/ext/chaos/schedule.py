"""A plan as a YAML file. What is wrong in it is told with its line, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path

from kueue.reading.nodes import At, Problems, documents
from lab.api.base import Plain
from lab.errors import LabError, UsageError
from lab.ext.chaos.documents import ScheduleForm, StepForm, written
from lab.ext.chaos.plan import Plan, Step, check_step
from lab.host.quantities import parse_duration
from lab.host.reading import SMALL, named_text

FORM = "the form of a schedule: docs/chaos.md"

MAPPING, NUMBER = "must be a mapping, `name: value`", "must be a number"
LIST, WORD = "must be a list that is not empty", "must be a word"
DURATION = "must be a duration such as 30s or 2m, at most 24 hours"
MUST: Mapping[str, str] = {
    "faults": LIST,
    "steps": LIST,
    "every": "must be a duration such as 30s or 2m, more than zero and at most 24 hours",
    "seed": "must be a whole number from 0",
    "limit": "must be a whole number from 1",
    "until": DURATION,
    "parameters": MAPPING,
    "below-one-worker": "must be true or false",
    "at": DURATION,
    "fault": WORD,
    "target": WORD,
    "share": "must be a number between 0 and 1",
    "with": MAPPING,
}
"""Field -> what has to stand there."""

MAX_SECONDS = 24 * 3600.0

Place = tuple[str | int, ...]
"""Way to a node of a document: keys and positions, from its root."""


def read_schedule(path: Path) -> Plan:
    """The plan in a file; docs/chaos.md has its form. Raises NotFoundError, UsageError with the line."""
    name, text = named_text(
        path,
        "schedule",
        "name a YAML file with faults or steps; an example: workspace/chaos/classroom.yaml",
        SMALL,
    )
    return parse_schedule(text, name)


def parse_schedule(text: str, where: str) -> Plan:
    """The plan in a text; `where` is what errors call it. Raises UsageError with the line."""
    problems = Problems()
    schedules = [_Document(where, root) for root in documents(text, where, problems)]
    for problem in problems.errors:
        what = f"{problem.path} {problem.message}".lstrip()
        raise UsageError(f"{where}, line {problem.line}: {what}", FORM)
    if len(schedules) != 1:
        many = f"{len(schedules)} documents; a schedule is one" if schedules else "the file is empty"
        raise UsageError(f"{where}: {many}", "name faults, or steps")
    return _plan(schedules[0])


def _plan(document: _Document) -> Plan:
    form = document.form()
    limit = None if form.limit is None else int(form.limit)
    seconds = None if form.until is None else document.seconds(form.until, "until")
    below_one = form.below_one_worker.lower() == "true"
    if form.steps is not None:
        for name in (name for name in ("every", "seed", "parameters") if name in document.data):
            raise document.wrong(f"`{name}` is for `faults`; steps say it themselves", (name,))
        steps = tuple(document.step(step, number) for number, step in enumerate(form.steps))
        if list(steps) != sorted(steps, key=lambda step: step.at):
            raise document.wrong("the steps must come in the order of their times", ("steps",))
        return Plan(written=steps, limit=limit, seconds=seconds, below_one=below_one)
    kinds = form.faults or ()
    parameters = {kind: _numbers(given) for kind, given in form.parameters.items()}
    for kind in parameters:
        if kind not in kinds:
            what = f"`parameters` of {kind}, which is not among `faults`"
            raise document.wrong(what, ("parameters", kind))
    for number, kind in enumerate(kinds):
        document.check(Step(0.0, kind, parameters=parameters.get(kind, {})), ("faults", number))
    every = Plan.every if form.every is None else document.seconds(form.every, "every")
    if every <= 0:
        raise document.misfit(("every",))
    seed = Plan.seed if form.seed is None else int(form.seed)
    return Plan(kinds, every, seed, limit, seconds, parameters, below_one=below_one)


def _numbers(texts: Mapping[str, str]) -> dict[str, float]:
    return {name: float(text) for name, text in texts.items()}


def _within(outer: Place) -> Callable[[Place], bool]:
    """Tells whether a place is within another one."""
    return lambda place: len(place) > len(outer) and place[: len(outer)] == outer


class _Document:
    """A YAML document as plain data, in which every scalar is text, and the line of each place in it."""

    def __init__(self, where: str, root: At) -> None:
        self._where = where
        self._lines: dict[Place, int] = {}
        self._key_lines: dict[Place, int] = {}
        self.data: Plain = self._plain(root, ())

    def _plain(self, at: At, place: Place) -> object:
        self._lines[place] = at.line
        if at.node.id == "sequence":
            return [self._plain(item, (*place, number)) for number, item in enumerate(at.items())]
        if at.node.id == "scalar":
            return str(at.node.value).strip()
        self._key_lines |= {(*place, str(key.value)): key.start_mark.line + 1 for key, _ in at.node.value}
        return {name: self._plain(value, (*place, name)) for name, value in at.mapping().items()}

    def form(self) -> ScheduleForm:
        """The file's content. Raises UsageError for what does not fit; of several misfits for the first."""
        from pydantic import TypeAdapter, ValidationError

        if isinstance(self.data, dict) and ("faults" in self.data) == ("steps" in self.data):
            raise self.wrong("a schedule needs either `faults`, to draw from, or `steps`, to follow", ())
        try:
            return TypeAdapter(ScheduleForm).validate_python(self.data)
        except ValidationError as error:
            misfits = [(misfit["type"], misfit["loc"]) for misfit in error.errors(include_url=False)]
        places = [place for _, place in misfits]  # a list without a part that fits counts as empty, too
        inner = [(kind, place) for kind, place in misfits if not any(map(_within(place), places))]
        raise min((self._error(*misfit) for misfit in inner), key=lambda wrong: wrong[0])[1]

    def _error(self, kind: str, place: Place) -> tuple[int, UsageError]:
        """The line of a misfit, and the error for it."""
        *outer, name = place or ("",)
        around: Place = tuple(outer)
        what = "a step" if around[:1] == ("steps",) else "a schedule"
        if kind == "missing":
            return self._lines[around], self.wrong(f"{what} needs `{name}`", around)
        if kind == "unexpected_keyword_argument":
            known = [written(field.name) for field in fields(StepForm if outer else ScheduleForm)]
            guess = "".join(f" (did you mean `{close}`?)" for close in get_close_matches(str(name), known, 1))
            why = f"{what} has no `{name}`{guess}; it has {', '.join(known)}"
            return self._lines[around], self.wrong(why, around, line=self._key_lines.get(place))
        return self._lines[place], self.misfit(place)

    def misfit(self, place: Place) -> UsageError:
        """The error for a value that is not what it must be."""
        value = self._at(place)
        name = place[-1] if place else None
        what = "a schedule" if name is None else f"`{name}`"
        must = MAPPING if name is None else MUST.get(str(name), NUMBER)
        if isinstance(name, int):
            what, must = ("a step", MAPPING) if place[0] == "steps" else ("a fault", WORD)
        elif place[0:1] == ("parameters",) and len(place) > 1:
            must = MAPPING if len(place) == 2 else NUMBER
        elif "with" in place[:-1]:
            must = NUMBER
        given = f", not {value!r}" if isinstance(value, str) else ""
        return self.wrong(f"{what} {must}{given}", place)

    def _at(self, place: Place) -> object:
        value: Plain = self.data
        for key in place:
            value = value[key]
        return value

    def seconds(self, text: str, *place: str | int) -> float:
        """A duration in seconds, of at most MAX_SECONDS."""
        seconds = parse_duration(text)
        if seconds > MAX_SECONDS:
            raise self.misfit(place)
        return seconds

    def step(self, form: StepForm, number: int) -> Step:
        """The step with this number. Raises UsageError where its fault makes no sense in a chaos run."""
        share = float(form.share)
        if not 0 <= share <= 1:
            raise self.misfit(("steps", number, "share"))
        at = self.seconds(form.at, "steps", number, "at")
        step = Step(at, form.fault, form.target, share, _numbers(form.with_))
        self.check(step, ("steps", number, "fault"))
        return step

    def check(self, step: Step, place: Place) -> None:
        """Refuse a step whose fault makes no sense in a chaos run. Raises UsageError."""
        try:
            check_step(step)
        except LabError as error:
            raise self.wrong(error.message, place, error.hint) from error

    def wrong(self, why: str, place: Place, hint: str = FORM, line: int | None = None) -> UsageError:
        """The error for the value at this place, or for a line of its own."""
        return UsageError(f"{self._where}, line {line or self._lines[place]}: {why}", hint)
