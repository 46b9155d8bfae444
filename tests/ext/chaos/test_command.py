"""chaos: what is asked for, what is shown, how it ends."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY, call

import pytest

from lab.api.base import plain
from lab.api.receipt import ControlDocument, CurvesDocument
from lab.errors import INTERRUPTED, RefusedError
from lab.evidence.receipt.compare import Likeness
from lab.ext.chaos.plan import Plan, Step
from lab.ext.chaos.result import ChaosResult, StepResult
from lab.host.interrupts import SignalError
from tests.conftest import ROOT
from tests.unit.cli.fakes import Labctl, receipt
from tests.unit.fakes import AT


def compared(weights: Likeness) -> ControlDocument:
    """A control run that ended with these weights."""
    return ControlDocument("control-1", 9.0, weights, "", CurvesDocument("epoch", None, False, 0.0, "", {}))


def result(*verdicts: str, **changes: Any) -> ChaosResult:
    """A chaos run of a job, with a kill for each verdict; `left out` is none."""
    steps = tuple(
        StepResult(
            Step(10.0 * number, "kill"),
            "ray-worker-0",
            None if verdict == "left out" else receipt(verdict),
            "the job ends in about 4 s" if verdict == "left out" else "",
            None if verdict == "left out" else 3.5,
        )
        for number, verdict in enumerate(verdicts, 1)
    )
    whole = ChaosResult("job-1", "SUCCEEDED", Plan(("kill",), seed=7), AT, AT + 90.0, steps, 40, ())
    return dataclasses.replace(whole, **changes)


def answer(labctl: Labctl, given: ChaosResult | BaseException) -> Any:
    """Let chaos end like this."""
    return labctl.stub("lab.ext.chaos.run.run_chaos", given)


@pytest.fixture
def chaos(labctl: Labctl) -> Any:
    """A chaos run that is survived."""
    return answer(labctl, result("recovered", "as-expected"))


def test_a_page_is_named_where_an_installed_labctl_has_it(labctl: Labctl) -> None:
    asked = ("chaos", "--schedule", "x.yaml", "--every", "5s")
    assert "-> the file says it; see docs/chaos.md\n" in labctl(*asked).stderr
    labctl.stub("lab.host.environment.packaged", True)
    assert f"-> the file says it; see {ROOT}/docs/chaos.md\n" in labctl(*asked).stderr
    assert f"{ROOT}/docs/health.md" in labctl.ok("health", "--help")


def test_chaos_is_asked_for_as_typed(labctl: Labctl, chaos: Any) -> None:
    labctl.ok(
        "chaos", "--faults", "kill, s3-slow", "--every", "15s", "--seed", "7", "--limit", "5", "--for",
        "10m", "-p", "s3-slow.delay=0.25", "-p", "s3-slow.for=3", "--below-one-worker", "--job", "job-1",
        "--control",
    )  # fmt: skip
    given = {"s3-slow": {"delay": 0.25, "for": 3.0}}
    plan = Plan(("kill", "s3-slow"), 15.0, 7, 5, 600.0, given, below_one=True)
    chaos.assert_called_once_with(labctl.lab, plan, ANY, job="job-1", control=True)


def test_what_is_not_typed_has_a_default(labctl: Labctl, chaos: Any) -> None:
    labctl.ok("chaos")
    plan = Plan(("kill", "pause", "s3-slow"), 30.0, 0)
    assert chaos.call_args_list == [call(labctl.lab, plan, ANY, job="", control=False)]


def test_a_schedule_is_read_and_can_be_narrowed(labctl: Labctl, chaos: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("steps:\n- {at: 3s, fault: kill}\n")
    labctl.ok("chaos", "--schedule", str(path))
    labctl.ok("chaos", "--schedule", str(path), "--limit", "1", "--for", "5s", "--below-one-worker")
    written = (Step(3.0, "kill"),)
    assert [call.args[1] for call in chaos.call_args_list] == [
        Plan(written=written),
        Plan(written=written, limit=1, seconds=5.0, below_one=True),
    ]


def test_a_bad_schedule_is_refused_with_its_line(labctl: Labctl, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("steps:\n- at: 3s\n  fault: voodoo\n")
    shown = labctl("chaos", "--schedule", str(path))
    assert (shown.exit_code, labctl.opened) == (2, [])
    assert f"error: {path}, line 3: steps[0].fault: there is no fault 'voodoo'" in shown.stderr
    assert labctl("chaos", "--schedule", str(tmp_path / "none.yaml")).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--faults", "kill,voodoo"], 3, "there is no fault 'voodoo'"),
        (["--faults", ","], 2, "no fault is named"),
        (["--faults", "kill,,stop"], 2, "a name is empty"),
        (["--every", "0"], 2, "--every"),
        (["--seed", "-1"], 2, "--seed"),
        (["--limit", "0"], 2, "--limit"),
        (["--for", "0"], 2, "--for"),
        (["--faults", "kill", "-p", "for=3"], 2, "must be FAULT.NAME=NUMBER"),
        (["--faults", "kill", "-p", "kill.=3"], 2, "must be FAULT.NAME=NUMBER"),
        (["--faults", "kill", "-p", "kill.speed=3"], 2, "kill has no parameter 'speed'"),
        (["--faults", "kill", "-p", "pause.for=3"], 2, "pause is not among the faults"),
        (["--faults", "kill", "-p", "kill.for=long"], 2, "must be a number"),
        (["--schedule", "s.yaml", "--faults", "kill"], 2, "--schedule and --faults cannot be used together"),
        (["--schedule", "s.yaml", "--seed", "1"], 2, "--schedule and --seed cannot be used together"),
        (["--schedule", "s.yaml", "-p", "kill.for=1"], 2, "--schedule and -p cannot be used together"),
    ],
)
def test_nonsense_is_refused_before_anything_is_opened(
    labctl: Labctl, arguments: list[str], code: int, said: str
) -> None:
    shown = labctl("chaos", *arguments)
    assert (shown.exit_code, labctl.opened) == (code, [])
    assert said in shown.stderr


def test_each_fault_has_a_line_and_the_sum_follows(labctl: Labctl) -> None:
    answer(labctl, result("recovered", "left out", "as-expected"))
    lines = [" ".join(line.split()) for line in labctl.ok("chaos").splitlines()]
    assert lines == [
        "NUMBER FAULT TARGET VERDICT NEXT REPORT EPOCHS REPEATED",
        "1 kill ray-worker-0 recovered 3.5 s 1",
        "2 kill ray-worker-0 left out",
        "3 kill ray-worker-0 as-expected 3.5 s 1",
        "",
        "2 left out: the job ends in about 4 s",
        "job job-1 SUCCEEDED",
        "faults 2 injected, 2 survived, 1 left out",
        "downtime 7.0 s",
        "done twice 2 epochs",
        "checkpoints 40 committed, none lost",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (result("recovered", "failed"), "kill on ray-worker-0: failed: "),
        (result("recovered", status="FAILED"), "job job-1 is FAILED"),
        (result("recovered", lost=("s3://ray/run/checkpoint_000004",)), "1 checkpoint lost"),
        (result("left out"), "no fault was injected before the job ended"),
        (result("recovered", problems=("the result could not be kept",)), "the result could not be kept"),
        (result("recovered", control=compared("different")), "the weights are not those"),
    ],
)
def test_what_was_not_survived_fails_and_says_why(labctl: Labctl, given: ChaosResult, said: str) -> None:
    answer(labctl, given)
    shown = labctl("chaos")
    assert shown.exit_code == 10
    assert f"error: chaos was not survived: {said}" in shown.stderr
    assert "faults" in shown.stdout


def test_equal_weights_are_shown(labctl: Labctl) -> None:
    answer(labctl, result("recovered", control=compared("equal")))
    assert "compared with an undisturbed run: identical, bit for bit" in labctl.ok("chaos")


@pytest.mark.parametrize(("verdict", "code"), [("recovered", 0), ("failed", 10)])
def test_the_json_document_is_the_result_itself(labctl: Labctl, verdict: str, code: int) -> None:
    answer(labctl, result(verdict))
    document = labctl.json("chaos", code=code)
    assert document == json.loads(json.dumps(plain(result(verdict).document())))
    assert (document["schema"], document["good"]) == ("chaos/1", code == 0)


@pytest.mark.parametrize(("interrupt", "code"), [(KeyboardInterrupt(), INTERRUPTED), (SignalError(15), 143)])
def test_after_an_interrupt_what_was_done_is_shown(
    labctl: Labctl, interrupt: KeyboardInterrupt, code: int
) -> None:
    answer(labctl, result("not-verified", status="RUNNING", interrupt=interrupt))
    shown = labctl("chaos")
    assert shown.exit_code == code
    assert "1 kill" in " ".join(shown.stdout.split())
    assert "no verdict above is final" in shown.stderr
    assert labctl.json("chaos", code=code)["interrupted"] is True


def test_an_interrupt_of_the_control_run_leaves_the_verdicts_as_they_are(labctl: Labctl) -> None:
    answer(labctl, result("recovered", interrupt=KeyboardInterrupt()))
    shown = labctl("chaos", "--control")
    assert shown.exit_code == INTERRUPTED
    assert "job job-1 had ended" in shown.stderr
    assert "goes on" not in shown.stderr


def test_an_interrupt_of_the_judging_says_what_goes_on(labctl: Labctl) -> None:
    answer(labctl, KeyboardInterrupt())
    shown = labctl("chaos")
    assert shown.exit_code == INTERRUPTED
    assert (
        "no verdict: the job goes on (labctl jobs); labctl heal undoes a fault that is left" in shown.stderr
    )


def test_without_a_job_it_is_refused_with_the_line_to_type(labctl: Labctl) -> None:
    shown = labctl("chaos")
    assert shown.exit_code == 11
    assert "-> start one: labctl submit digits -p epochs=200 -p max-failures=-1 --detach" in shown.stderr


def test_an_error_keeps_its_exit_code(labctl: Labctl) -> None:
    answer(labctl, RefusedError("not now"))
    assert labctl("chaos").exit_code == 11
