"""faults, fault-inject, demo."""

from __future__ import annotations

import json

import pytest

from lab.errors import INTERRUPTED, JobError, NotFoundError, RefusedError, WaitTimeoutError
from lab.faults import FAULTS
from lab.faults.active import ActiveFault
from lab.flows.demo import DemoRequest
from lab.flows.recovery import FaultRequest
from tests.unit.cli.fakes import AT, DASHBOARD, Labctl, receipt

VERDICTS = [
    ("recovered", 0),
    ("as-expected", 0),
    ("restarted-from-scratch", 10),
    ("failed", 10),
    ("not-verified", 10),
]


def test_faults_are_listed(labctl: Labctl) -> None:
    shown = labctl.ok("faults")
    assert [line.partition(":")[0] for line in shown.splitlines() if not line.startswith(" ")] == list(FAULTS)
    assert "  for [s]: how long the node is frozen (default: 10)" in shown
    assert "  expected: training resumes from its newest checkpoint" in shown


def test_faults_as_json(labctl: Labctl) -> None:
    document = labctl.json("faults")
    assert [fault["name"] for fault in document["faults"]] == list(FAULTS)
    assert set(document["faults"][0]) == {
        "name", "summary", "hits", "parameters", "runtimes", "expected", "revert"
    }  # fmt: skip
    assert document["faults"][2]["parameters"][0]["unit"] == "s"
    assert labctl.core.opened == []


def test_a_fault_is_asked_for_as_typed(labctl: Labctl) -> None:
    labctl.ok(
        "fault-inject", "ray-worker-0", "--fault", "pause", "--job", "job-1", "--after-epoch", "3",
        "--for", "20s", "--timeout", "1m",
    )  # fmt: skip
    labctl.ok("fault-inject", "ray-worker-1", "--after", "500ms", "--no-wait")
    labctl.ok("fault-inject", "--fault", "s3-slow", "-p", "delay=0.25", "--control")
    assert labctl.core.requests == [
        (FaultRequest("ray-worker-0", "pause", "job-1", 3, None, 20.0, 60.0), True),
        (FaultRequest("ray-worker-1", "kill", "", None, 0.5), False),
        (FaultRequest("", "s3-slow", parameters={"delay": 0.25}), True, True),
    ]


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
    labctl.core.verdict = verdict
    for command in (["fault-inject", "ray-worker-0"], ["demo"]):
        result = labctl(*command)
        assert result.exit_code == code
        assert ("error: recovery was not proven" in result.stderr) is bool(code)
        assert "recovery receipt" in result.stdout


@pytest.mark.parametrize(("verdict", "code"), VERDICTS)
def test_the_json_document_is_the_receipt_itself(labctl: Labctl, verdict: str, code: int) -> None:
    labctl.core.verdict = verdict
    assert labctl.json("fault-inject", "ray-worker-0", code=code) == receipt(verdict).to_json()


def test_a_lab_that_is_not_whole_after_a_training_that_recovered_is_named_as_what_is_wrong(
    labctl: Labctl,
) -> None:
    labctl.core.verdict, labctl.core.failing = "failed", "lab whole again"
    result = labctl("fault-inject", "ray-worker-0")
    assert result.exit_code == 10
    assert "error: training recovered, but the lab is not whole" in result.stderr
    assert "was not proven" not in result.stderr
    assert labctl.json("fault-inject", "ray-worker-0", code=10)["verdict"] == "failed"


def test_without_waiting_it_says_what_was_done(labctl: Labctl) -> None:
    result = labctl("fault-inject", "ray-worker-0", "--no-wait")
    assert result.exit_code == 0
    assert result.stdout.startswith("kill ray-worker-0: injected at ")
    assert "undone 4.2 s later: the node is started again" in result.stdout
    document = labctl.json("fault-inject", "ray-worker-0", "--no-wait")
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
        ["--control", "--no-wait"],
    ],
)
def test_absurd_faults_are_refused_before_anything_is_opened(labctl: Labctl, arguments: list[str]) -> None:
    result = labctl("fault-inject", "ray-worker-0", *arguments)
    assert (result.exit_code, labctl.core.opened, labctl.core.requests) == (2, [], [])
    assert arguments[0] in result.stderr


@pytest.mark.parametrize(
    "error",
    [NotFoundError("no such service"), RefusedError("runs no part"), WaitTimeoutError("no checkpoint")],
)
def test_a_fault_that_cannot_be_injected_is_an_error(
    labctl: Labctl, error: NotFoundError | RefusedError | WaitTimeoutError
) -> None:
    labctl.core.fail = error
    assert labctl("fault-inject", "ray-worker-0").exit_code == error.exit_code
    assert (
        labctl.json("fault-inject", "ray-worker-0", code=error.exit_code)["error"]["message"] == error.message
    )


@pytest.mark.parametrize("arguments", [["fault-inject", "ray-worker-0"], ["demo"]])
def test_an_interrupt_is_130(labctl: Labctl, arguments: list[str]) -> None:
    labctl.core.fail = KeyboardInterrupt()
    result = labctl(*arguments)
    assert result.exit_code == INTERRUPTED
    assert result.stderr.endswith("interrupted\n")


def test_demo_tells_the_whole_story(labctl: Labctl) -> None:
    result = labctl("demo", "--gpu", "none")
    assert result.exit_code == 0
    assert "runtime: fake (auto: no Docker Engine answers)" in result.stderr
    assert "ray-head        healthy" in result.stderr
    for line in (
        "weights, compared with an undisturbed run: identical, bit for bit",
        "train and recover  60.0 s",
        f"dashboard       {DASHBOARD}",
        "stop the lab    labctl down",
    ):
        assert line in result.stdout


def test_demo_asks_for_what_was_typed(labctl: Labctl) -> None:
    labctl.ok("demo", "--fault", "stop", "--workers", "2", "--epochs", "9", "--no-control")
    labctl.ok("demo")
    assert [r for r in labctl.core.requests if isinstance(r, DemoRequest)] == [
        DemoRequest(fault="stop", workers=2, epochs=9, control=False),
        DemoRequest(),
    ]


def test_demo_as_json_ends_with_the_receipt(labctl: Labctl) -> None:
    first, last = labctl.ok("demo", "--json").splitlines()
    assert json.loads(last) == receipt().to_json()
    assert json.loads(first) == {
        "demo": {
            "seconds": {"up": 9.25, "train and recover": 60.0},
            "comparison": {"weights": "equal", "detail": "epoch 20, weights_sha256 3f3f"},
            "dashboard": DASHBOARD,
        }
    }


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_demo_whose_control_run_fails_shows_its_receipt_and_exits_with_the_error(
    labctl: Labctl, arguments: list[str]
) -> None:
    labctl.core.uncompared = JobError("the undisturbed run job-2 ended FAILED", "labctl job logs job-2")
    result = labctl("demo", *arguments)
    assert result.exit_code == JobError.exit_code
    assert "recovered" in result.stdout.lower()
    assert "error: the undisturbed run job-2 ended FAILED" in result.stderr


def test_demo_without_control_compares_nothing(labctl: Labctl) -> None:
    assert "weights" not in labctl.ok("demo", "--no-control")
    assert (
        json.loads(labctl.ok("demo", "--no-control", "--json").splitlines()[0])["demo"]["comparison"] is None
    )


@pytest.mark.parametrize("fail", [None, RefusedError("no"), KeyboardInterrupt()])
def test_demo_stops_the_lab_when_asked_whatever_happens(labctl: Labctl, fail: BaseException | None) -> None:
    labctl.core.fail = fail
    labctl("demo", "--down")
    assert labctl.core.runtime.journal[-1] == ("down", False)


def test_demo_leaves_the_lab_up_by_default(labctl: Labctl) -> None:
    labctl.ok("demo")
    assert labctl.core.runtime.is_up


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--fault", "meteor"], 3),
        (["--workers", "3"], 2),
        (["--workers", "0"], 2),
        (["--epochs", "-1"], 2),
        (["--epochs", "99999"], 2),
        (["--gpu", "voodoo"], 2),
    ],
)
def test_an_absurd_demo_is_refused_before_anything_is_opened(
    labctl: Labctl, arguments: list[str], code: int
) -> None:
    assert labctl("demo", *arguments).exit_code == code
    assert labctl.core.opened == []


# What a labctl that died has left behind

LEFT = ActiveFault("pause", "ray-worker-0", "job-1", AT, 4711, 1.0)


def test_nothing_to_heal(labctl: Labctl) -> None:
    assert labctl.ok("heal") == "nothing to heal\n"
    assert labctl.json("heal") == {"healed": []}


def test_what_was_left_behind_is_undone(labctl: Labctl) -> None:
    labctl.core.left = (LEFT,)
    assert labctl.ok("heal") == "pause ray-worker-0: undone\n"
    assert "ray-worker-0    starting  started again: the machine was too busy" in labctl("heal").stderr
    assert labctl.json("heal")["healed"] == [
        {"kind": "pause", "target": "ray-worker-0", "job": "job-1", "at": AT, "problem": None}
    ]


def test_what_cannot_be_undone_is_an_error(labctl: Labctl) -> None:
    labctl.core.left, labctl.core.heal_problem = (LEFT,), "it does not start"
    result = labctl("heal")
    assert result.exit_code == 8
    assert "pause ray-worker-0: NOT undone: it does not start" in result.stdout
    assert "labctl restart ray-worker-0" in result.stderr


def test_status_says_that_there_is_something_to_heal(labctl: Labctl) -> None:
    labctl.ok("up")
    labctl.core.left = (LEFT,)
    assert "`labctl heal` undoes it" in labctl.ok("status")
