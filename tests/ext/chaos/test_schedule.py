"""A schedule file: what it says, and every error with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.errors import NotFoundError, UsageError
from lab.ext.chaos.plan import Step
from lab.ext.chaos.schedule import parse_schedule, read_schedule
from tests.conftest import ROOT


def test_steps_are_read_with_everything_they_say() -> None:
    plan = parse_schedule(
        """
        steps:
          - {at: 500ms, fault: kill}
          - at: 2m
            fault: pause
            target: ray-worker-1
            with: {for: 8}
          - {at: 1h, fault: rank-kill, share: 0.9}
        limit: 5
        until: 2h
        below-one-worker: true
        """,
        "x.yaml",
    )
    assert plan.written == (
        Step(0.5, "kill"),
        Step(120.0, "pause", "ray-worker-1", parameters={"for": 8.0}),
        Step(3600.0, "rank-kill", share=0.9),
    )
    assert (plan.limit, plan.seconds, plan.below_one) == (5, 7200.0, True)


def test_faults_to_draw_from_are_read() -> None:
    text = "faults: [kill, s3-slow]\nevery: 15s\nseed: 7\nparameters: {s3-slow: {delay: 0.25}}\n"
    plan = parse_schedule(text, "x.yaml")
    assert (plan.kinds, plan.every, plan.seed) == (("kill", "s3-slow"), 15.0, 7)
    assert (plan.limit, plan.seconds, plan.below_one, plan.written) == (None, None, False, ())
    assert {step.kind: dict(step.parameters) for step in list(plan.steps())[:2]} == {
        "kill": {},
        "s3-slow": {"delay": 0.25},
    }


BELOW = (("a", "x"), ("b", "*a"), ("c", "*b"), ("d", "*c"), ("e", "*d"))
BOMB = "\n".join(f"{name}: &{name} [{', '.join(20 * [below])}]" for name, below in BELOW)
"""A few lines that stand for millions of words."""


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("faults: [kill\nevery: 3s", 2, "not YAML"),
        ("faults: [kill]\n\n\x07", 3, "not YAML"),
        ("[" * 5_000, 1, "nested deeper than 100 levels"),
        ("- kill\n- stop", 1, "expected a mapping, found a list"),
        ("every: 3s", 1, "a schedule needs either `faults`, to draw from, or `steps`"),
        ("faults: [kill]\nsteps: []", 1, "a schedule needs either `faults`, to draw from, or `steps`"),
        ("faults: []", 1, "faults: has 0 entries, must have at least 1"),
        ("\nfaults: kill", 2, "faults: expected a list"),
        ("faults:\n- kill\n- voodoo", 3, "there is no fault 'voodoo'"),
        ("faults:\n- kill\n- {}", 3, "faults[1]: expected a string"),
        ("faults: [kill]\nfaults: [stop]", 2, "faults: comes twice"),
        (
            "faults: [kill]\nspeed: 3",
            2,
            "speed: unknown field",
        ),
        ("faults: [kill]\nrate:\n- 3", 3, "rate: unknown field"),
        ("steps:\n- {at: -1s, fault: kill}", 2, "steps[0].at: '-1s' is not a duration"),
        ("faults: [kill]\nparameters: &p\n  kill: {a: *p}", 3, "stands for something that it is part of"),
        (BOMB, 5, "its aliases stand for more than 1000000 values"),
        ("faults: [kill]\nevery: soon", 2, "every: 'soon' is not a duration"),
        ("faults: [kill]\nevery: 0", 2, "every: must be more than zero"),
        ("faults: [kill]\nevery: 25h", 2, "every: must be at most 24 hours"),
        ("faults: [kill]\nseed: 1.5", 2, "seed: expected a whole number"),
        ("faults: [kill]\nseed: -1", 2, "seed: -1 is out of range: from 0"),
        ("faults: [kill]\nlimit: 0", 2, "limit: 0 is out of range: from 1"),
        ("faults: [kill]\nlimit: 1e400", 2, "limit: expected a whole number"),
        ("faults: [kill]\nuntil: []", 2, "until: expected a value"),
        ("faults: [kill]\nbelow-one-worker: 1", 2, "below-one-worker: expected true or false"),
        ("faults: [kill]\nparameters: {pause: {for: 1}}", 2, "parameters.pause: is not among `faults`"),
        ("faults: [pause]\nparameters:\n  pause: {for: long}", 3, "parameters.pause.for: 'long'"),
        ("faults: [pause]\nparameters: {pause: {for: .nan}}", 2, "parameters.pause.for: '.nan'"),
        ("faults: [pause]\nparameters: {pause: {for: 1e400}}", 2, "is too large"),
        ("faults: [kill]\nparameters: {kill: {speed: 1}}", 1, "kill has no parameter 'speed'"),
        ("steps: []", 1, "steps: has 0 entries, must have at least 1"),
        ("steps:\n- kill", 2, "steps[0]: expected a mapping"),
        ("steps:\n- {at: 1s}", 2, "steps[0]: fault is missing"),
        ("steps:\n- {fault: kill}", 2, "steps[0]: at is missing"),
        ("steps:\n- {at: 1s, fault: kill, rank: 0}", 2, "steps[0].rank: unknown field"),
        ("steps:\n- at: 1s\n  fault: voodoo", 3, "there is no fault 'voodoo'"),
        ("steps:\n- {at: 1s, fault: kill, share: 2}", 2, "steps[0].share: must be a number between 0 and 1"),
        ("steps:\n- at: 1s\n  fault: kill\n  with: 8", 4, "steps[0].with: expected a mapping"),
        ("steps:\n- {at: 1s, fault: kill, with: {for: 0}}", 2, "for=0: must be between"),
        ("steps:\n- {at: 9s, fault: kill}\n- {at: 1s, fault: stop}", 2, "in the order of their times"),
        ("steps:\n- {at: 1s, fault: kill}\nseed: 3", 3, "seed: is for `faults`"),
    ],
)
def test_an_error_is_told_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(UsageError, match=rf"^x\.yaml, line {line}: .*{re.escape(reason)}"):
        parse_schedule(text, "x.yaml")


@pytest.mark.parametrize(
    ("text", "what"),
    [("# nothing\n", "the file is empty"), ("faults: [kill]\n---\nfaults: [stop]", "2 documents")],
)
def test_a_schedule_is_one_document(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=rf"^x\.yaml: {what}"):
        parse_schedule(text, "x.yaml")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("faults: [kill]\n")
    assert read_schedule(path).kinds == ("kill",)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No such file"):
        read_schedule(tmp_path / "none.yaml")
    with pytest.raises(NotFoundError, match="Is a directory"):
        read_schedule(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        read_schedule(tmp_path / "binary.yaml")
    (tmp_path / "large.yaml").write_bytes(b" " * (1 << 20) + b"  ")
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_schedule(tmp_path / "large.yaml")


def test_the_schedule_for_a_classroom_is_one() -> None:
    plan = read_schedule(ROOT / "workspace" / "chaos" / "classroom.yaml")
    assert len(list(plan.steps())) == 5
    assert len({step.kind for step in plan.steps()}) == 5


def documented() -> list[str]:
    text = (ROOT / "docs" / "chaos.md").read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", documented())
def test_the_schedules_in_the_documents_are_schedules(block: str) -> None:
    assert next(parse_schedule(block, "docs").steps()).kind in ("kill", "pause", "s3-slow")


def test_both_forms_are_documented() -> None:
    assert [block.split(":")[0] for block in documented()] == ["steps", "faults"]
