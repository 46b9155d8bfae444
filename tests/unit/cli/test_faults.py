"""faults, fault-inject, heal."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import ANY, call

import pytest

from lab.api.base import plain
from lab.api.receipt import ReceiptDocument
from lab.errors import INTERRUPTED, NotFoundError, RefusedError, WaitTimeoutError
from lab.faults import FAULTS, catalogue
from lab.flows.recovery import FaultRequest, OnMoment, Outcome
from lab.flows.recovery.heal import Healed
from lab.lab import Lab
from lab.runtime.active_faults import ActiveFault, LeftUndone
from lab.topology import Progress, State
from tests.unit.cli.fakes import FAULT, MOMENTS, Labctl, receipt
from tests.unit.fakes import AT

VERDICTS = [
    ("recovered", 0),
    ("resumed", 0),
    ("as-expected", 0),
    ("restarted-from-scratch", 10),
    ("failed", 10),
    ("not-verified", 10),
]


@pytest.fixture
def injected(labctl: Labctl) -> Any:
    """A fault from which training recovers."""
    return ends_with(labctl, receipt())


def ends_with(labctl: Labctl, given: ReceiptDocument) -> Any:
    """Let every fault end with this receipt."""

    def inject(lab: Lab, request: FaultRequest, on_moment: OnMoment, *, wait: bool) -> Outcome:
        for moment in MOMENTS:
            on_moment(moment)
        return Outcome(FAULT, given if wait else None)

    return labctl.stub("lab.flows.recovery.inject", inject)


def test_faults_are_listed(labctl: Labctl) -> None:
    shown = labctl.ok("fault-inject", "--list")
    assert [line.partition(":")[0] for line in shown.splitlines() if not line.startswith(" ")] == list(FAULTS)
    assert "  for [s]: how long the node is frozen (default: 10)" in shown
    assert "  expected: training resumes from its newest checkpoint" in shown
    for kind in catalogue():
        section = shown.partition(f"{kind.name}: {kind.summary}\n")[2]
        rows = section.partition(f"  undone: {kind.revert}\n")[0].splitlines()
        assert [row.split()[0].rstrip(":") for row in rows] == [
            *(p.name for p in kind.parameters),
            "expected",
        ]


def test_faults_as_json(labctl: Labctl) -> None:
    document = labctl.json("fault-inject", "--list")
    assert [fault["name"] for fault in document["faults"]] == list(FAULTS)
    assert set(document["faults"][0]) == {
        "name", "summary", "hits", "parameters", "runtimes", "expected", "revert"
    }  # fmt: skip
    named = {fault["name"]: fault for fault in document["faults"]}
    assert named["pause"]["parameters"][0]["unit"] == "s"
    assert (named["kill"]["runtimes"], named["cordon"]["runtimes"]) == (
        ["local", "compose", "kubernetes"],
        ["kubernetes"],
    )
    assert labctl.opened == []


def test_a_fault_is_asked_for_as_typed(labctl: Labctl, injected: Any) -> None:
    labctl.ok(
        "fault-inject", "ray-worker-0", "--fault", "pause", "--job", "job-1", "--after-epoch", "3",
        "--for", "20s", "--timeout", "1m",
    )  # fmt: skip
    labctl.ok("fault-inject", "ray-worker-1", "--after", "500ms", "--detach")
    asked = functools.partial(call, labctl.lab)
    assert injected.call_args_list == [
        asked(FaultRequest("ray-worker-0", "pause", "job-1", 3, None, 20.0, 60.0), ANY, wait=True),
        asked(FaultRequest("ray-worker-1", "kill", "", None, 0.5), ANY, wait=False),
    ]


def test_with_a_control_run_it_is_repeated(labctl: Labctl) -> None:
    outcome = Outcome(FAULT, receipt())
    repeated = labctl.stub("lab.flows.recovery.inject_and_repeat", outcome)
    labctl.ok("fault-inject", "--fault", "s3-slow", "-p", "delay=0.25", "--control")
    request = FaultRequest("", "s3-slow", parameters={"delay": 0.25})
    assert repeated.call_args_list == [call(labctl.lab, request, ANY)]


@pytest.mark.usefixtures("injected")
def test_the_timeline_is_on_stderr_and_the_receipt_on_stdout(labctl: Labctl) -> None:
    result = labctl("fault-inject", "ray-worker-0")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines[0].split(maxsplit=1) == ["waiting", "waiting for a complete checkpoint in job job-1"]
    assert "   +0.9 s  node declared dead  Ray declares the node dead" in lines
    assert "  +31.0 s  job finished        job job-1: SUCCEEDED" in lines
    assert "RECOVERED" in result.stdout
    assert "fault-inject" not in result.stdout


@pytest.mark.parametrize(("verdict", "code"), VERDICTS)
def test_only_what_should_happen_is_success(labctl: Labctl, verdict: str, code: int) -> None:
    ends_with(labctl, receipt(verdict))
    result = labctl("fault-inject", "ray-worker-0")
    assert result.exit_code == code
    assert ("error: recovery was not proven" in result.stderr) is bool(code)
    assert "recovery receipt" in result.stdout


@pytest.mark.parametrize(("verdict", "code"), VERDICTS)
def test_the_json_document_is_the_receipt_itself(labctl: Labctl, verdict: str, code: int) -> None:
    ends_with(labctl, receipt(verdict))
    assert labctl.json("fault-inject", "ray-worker-0", code=code) == plain(receipt(verdict))


@pytest.mark.parametrize(
    ("verdict", "code"), [("recovered", 0), ("as-expected", 0), ("resumed", 10), ("failed", 10)]
)
def test_strictly_a_state_that_nobody_compared_is_no_success(labctl: Labctl, verdict: str, code: int) -> None:
    ends_with(labctl, receipt(verdict))
    result = labctl("fault-inject", "ray-worker-0", "--strict")
    assert result.exit_code == code
    assert ("error: --strict: training resumed" in result.stderr) is (verdict == "resumed")


def test_a_lab_that_is_not_whole_after_a_training_that_recovered_is_named_as_what_is_wrong(
    labctl: Labctl,
) -> None:
    ends_with(labctl, receipt("failed", failing="lab whole again"))
    result = labctl("fault-inject", "ray-worker-0")
    assert result.exit_code == 10
    assert "error: training recovered, but the lab is not whole" in result.stderr
    assert "was not proven" not in result.stderr
    assert labctl.json("fault-inject", "ray-worker-0", code=10)["verdict"] == "failed"


@pytest.mark.usefixtures("injected")
def test_without_waiting_it_says_what_was_done(labctl: Labctl) -> None:
    result = labctl("fault-inject", "ray-worker-0", "--detach")
    assert result.exit_code == 0
    assert result.stdout.startswith("kill ray-worker-0: injected at ")
    assert "undone 4.2 s later: the node is started again" in result.stdout
    document = labctl.json("fault-inject", "ray-worker-0", "--detach")
    assert document["fault"] == {"kind": "kill", "target": "ray-worker-0", "at": AT, "reverted_at": AT + 4.25}
    assert document["next"] == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--after", "1x"],
        ["--after", "-1s"],
        ["--after", "2h"],
        ["--for", "0"],
        ["--for", "-5"],
        ["--for", "3601"],
        ["--timeout", "0"],
        ["--timeout", "forever"],
        ["--after-epoch", "-1"],
        ["--after-epoch", "1.5"],
        ["--after-epoch", "1", "--after", "1s"],
        ["-p", "delay=much"],
        ["-p", "delay=nan"],
        ["-p", "delay"],
        ["--control", "--detach"],
        ["--control", "--leave-down"],
    ],
)
def test_absurd_faults_are_refused_before_anything_is_opened(labctl: Labctl, arguments: list[str]) -> None:
    result = labctl("fault-inject", "ray-worker-0", *arguments)
    assert (result.exit_code, labctl.opened) == (2, [])
    assert arguments[0] in result.stderr


@pytest.mark.parametrize(
    "error",
    [NotFoundError("no such service"), RefusedError("runs no part"), WaitTimeoutError("no checkpoint")],
)
def test_a_fault_that_cannot_be_injected_is_an_error(
    labctl: Labctl, error: NotFoundError | RefusedError | WaitTimeoutError
) -> None:
    labctl.stub("lab.flows.recovery.inject", error)
    assert labctl("fault-inject", "ray-worker-0").exit_code == error.exit_code
    assert (
        labctl.json("fault-inject", "ray-worker-0", code=error.exit_code)["error"]["message"] == error.message
    )


def test_an_interrupt_is_130(labctl: Labctl) -> None:
    labctl.stub("lab.flows.recovery.inject", KeyboardInterrupt())
    assert labctl("fault-inject", "ray-worker-0").exit_code == INTERRUPTED


# What a labctl that died has left behind

LEFT = ActiveFault("pause", "ray-worker-0", "job-1", AT, 4711, 1.0)


def left(labctl: Labctl, problem: str = "") -> None:
    """Let a fault be left behind, which this keeps from being undone."""

    def heal(lab: Lab, on_begin: Any, on_progress: Any) -> tuple[Healed, ...]:
        on_begin(LEFT)
        on_progress(Progress(LEFT.target, State.STARTING, "started again: the machine was too busy"))
        return (Healed(LEFT.kind, LEFT.target, LEFT.job, LEFT.at, problem),)

    labctl.stub("lab.flows.recovery.heal.heal", heal)


def test_nothing_to_heal(labctl: Labctl) -> None:
    assert labctl.ok("heal") == "nothing to heal\n"
    assert labctl.json("heal") == {"healed": []}


def test_what_was_left_behind_is_undone(labctl: Labctl) -> None:
    left(labctl)
    assert labctl.ok("heal") == "pause ray-worker-0: undone\n"
    assert "ray-worker-0    starting  started again: the machine was too busy" in labctl("heal").stderr
    assert labctl.json("heal")["healed"] == [
        {"kind": "pause", "target": "ray-worker-0", "job": "job-1", "at": AT, "problem": None}
    ]


def test_what_cannot_be_undone_is_an_error(labctl: Labctl) -> None:
    left(labctl, "it does not start")
    result = labctl("heal")
    assert result.exit_code == 8
    assert "pause ray-worker-0: NOT undone: it does not start" in result.stdout
    assert "labctl restart ray-worker-0" in result.stderr


def test_status_says_that_there_is_something_to_heal(labctl: Labctl) -> None:
    labctl.stub("lab.runtime.active_faults.left_undone", LeftUndone((LEFT,)))
    assert "`labctl heal` undoes it" in labctl.ok("status")
