"""A plan as a YAML file. What is wrong in it is told with its line, before anything starts."""

from __future__ import annotations

from pathlib import Path

from kueue.reading.nodes import At, Problems, documents
from lab.errors import LabError, UsageError
from lab.ext.chaos.plan import Plan, Step, check_step
from lab.host.reading import SMALL, named_text

FORM = "the form of a schedule: docs/chaos.md"
DRAWN = ("every", "seed", "parameters")
"""Fields beside `faults`; steps say it themselves."""
SCHEDULE = ("faults", "steps", *DRAWN, "limit", "until", "below-one-worker")
STEP = ("at", "fault", "target", "share", "with")
MAX_SECONDS = 24 * 3600.0
MAX_COUNT = 999_999_999


def read_schedule(path: Path) -> Plan:
    """The plan in a file; docs/chaos.md has its form. Raises NotFoundError, UsageError with the line."""
    wanted = "name a YAML file with faults or steps; an example: workspace/chaos/classroom.yaml"
    name, text = named_text(path, "schedule", wanted, SMALL)
    return parse_schedule(text, name)


def parse_schedule(text: str, where: str) -> Plan:
    """The plan in a text; `where` is what errors call it. Raises UsageError with the line."""
    problems = Problems()
    roots = list(documents(text, where, problems))
    if len(roots) != 1 and not problems.errors:
        many = f"{len(roots)} documents; a schedule is one" if roots else "the file is empty"
        raise UsageError(f"{where}: {many}", "name faults, or steps")
    plan = None if problems.errors else _plan(roots[0])
    if plan is None:
        problem = problems.errors[0]
        path = f"{problem.path}: " if problem.path else ""
        raise UsageError(f"{where}, line {problem.line}: {path}{problem.message}", problem.hint or FORM)
    return plan


def _plan(root: At) -> Plan | None:
    """The plan; None for one in which something is wrong."""
    given = root.fields(SCHEDULE)
    limit = given["limit"].integer(1, MAX_COUNT) if "limit" in given else None
    seconds = _seconds(given["until"]) if "until" in given else None
    below_one = "below-one-worker" in given and given["below-one-worker"].boolean()
    if ("faults" in given) == ("steps" in given):
        root.wrong("a schedule needs either `faults`, to draw from, or `steps`, to follow")
    elif "steps" in given:
        for name in (name for name in DRAWN if name in given):
            given[name].wrong("is for `faults`; steps say it themselves")
        steps = tuple(_step(item) for item in given["steps"].items(1))
        if list(steps) != sorted(steps, key=lambda step: step.at):
            given["steps"].wrong("must come in the order of their times")
        wrong = root.problems.errors
        return None if wrong else Plan(written=steps, limit=limit, seconds=seconds, below_one=below_one)
    options = given["parameters"].mapping() if "parameters" in given else {}
    parameters = {kind: _numbers(values) for kind, values in options.items()}
    faults = given["faults"].items(1) if "faults" in given else []
    kinds = tuple(item.text() for item in faults)
    for kind in (kind for kind in parameters if kind not in kinds):
        options[kind].wrong("is not among `faults`")
    for item, kind in zip(faults, kinds, strict=True):
        _check(item, Step(0.0, kind, parameters=parameters.get(kind, {})))
    every = _seconds(given["every"]) if "every" in given else Plan.every
    if every <= 0:
        given["every"].wrong("must be more than zero")
    seed = given["seed"].integer(0, MAX_COUNT) if "seed" in given else Plan.seed
    if root.problems.errors:
        return None
    return Plan(kinds, every, seed, limit, seconds, parameters, below_one=below_one)


def _step(item: At) -> Step:
    given = item.fields(STEP, required=("at", "fault"))
    step = Step(
        _seconds(given["at"]) if "at" in given else 0.0,
        given["fault"].text() if "fault" in given else "",
        given["target"].text() if "target" in given else "",
        given["share"].number() if "share" in given else 0.0,
        _numbers(given["with"]) if "with" in given else {},
    )
    if not 0 <= step.share <= 1:
        given["share"].wrong("must be a number between 0 and 1")
    _check(given.get("fault", item), step)
    return step


def _numbers(given: At) -> dict[str, float]:
    return {name: value.number() for name, value in given.mapping().items()}


def _seconds(given: At) -> float:
    """A duration, of at most a day."""
    seconds = given.duration()
    if seconds > MAX_SECONDS:
        given.wrong("must be at most 24 hours")
    return seconds


def _check(at: At, step: Step) -> None:
    """Refuse a step whose fault makes no sense in a chaos run, once all is read that it says."""
    try:
        if not at.problems.errors:
            check_step(step)
    except LabError as error:
        at.wrong(error.message, error.hint)
