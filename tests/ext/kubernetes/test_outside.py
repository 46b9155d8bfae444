"""receipt, and the commands that take --runtime kubernetes."""

from __future__ import annotations

import dataclasses

import pytest

from lab.api.base import plain
from lab.api.receipt import CheckDocument
from lab.errors import RefusedError
from lab.evidence.receipt.model import Source
from lab.flows.recovery import Outcome
from lab.flows.recovery.heal import Healed
from tests.unit.cli.fakes import FAULT, Labctl, receipt

JUDGE = "lab.flows.recovery.outside.judge_from_ledger"
PLACE = ("--storage", "s3://ray", "--endpoint", "http://127.0.0.1:9000")
KUBERNETES = ("fault-inject", "w-0", "--runtime", "kubernetes")


@pytest.fixture(autouse=True)
def key(labctl: Labctl) -> None:
    labctl.env |= {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


@pytest.mark.parametrize(("verdict", "code"), [("recovered", 0), ("failed", 10), ("not-verified", 10)])
def test_a_receipt_is_shown_and_its_verdict_is_the_exit_code(labctl: Labctl, verdict: str, code: int) -> None:
    given = receipt(verdict)
    skipped = CheckDocument("lab whole again", False, "there is no lab here", known=False, skipped=True)
    given = dataclasses.replace(
        given, checks=(*given.checks[:-1], skipped), not_asked={Source.SERVICES.value: "there is no lab here"}
    )
    labctl.stub(JUDGE, given)
    result = labctl("receipt", "job-1", *PLACE)
    assert result.exit_code == code
    assert "there is no lab here" in result.stdout
    assert labctl.json("receipt", "job-1", *PLACE, code=code) == plain(given)
    assert labctl.opened == [], "no lab is needed"


def test_a_receipt_needs_a_ledger(labctl: Labctl) -> None:
    result = labctl("receipt", "job-1")
    assert result.exit_code == 2
    assert "--storage" in result.stderr


@pytest.mark.parametrize(
    "command", [("up",), ("down",), ("status",), ("submit", "digits"), ("receipt", "j", *PLACE)]
)
def test_no_other_command_takes_the_runtime_of_clusters(labctl: Labctl, command: tuple[str, ...]) -> None:
    for argv in ((*command, "--runtime", "kubernetes"), ("--runtime", "kubernetes", *command)):
        result = labctl(*argv)
        assert result.exit_code == 2
        assert "labctl starts no cluster" in result.stderr
    assert "kubernetes" not in labctl.ok("up", "--help").partition("--runtime")[2].partition("]")[0]
    assert labctl.changes() == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((*KUBERNETES, *PLACE), "--runtime kubernetes without --context"),
        ((*KUBERNETES, "--context", "school"), "--runtime kubernetes without --storage"),
        ((*KUBERNETES, "--context", "school", *PLACE, "--control"), "--control with --runtime kubernetes"),
        (("fault-inject", "--context", "school"), "--context without --runtime kubernetes"),
        (("heal", "--namespace", "ann"), "--namespace without --runtime kubernetes"),
        (("heal", "--storage", "s3://ray"), "--storage without --runtime kubernetes"),
    ],
)
def test_options_of_clusters_go_together(labctl: Labctl, argv: tuple[str, ...], words: str) -> None:
    result = labctl(*argv)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_fault_on_a_cluster_has_its_lab_from_the_options(labctl: Labctl) -> None:
    given = receipt()
    inject = labctl.stub("lab.flows.recovery.inject", Outcome(FAULT, given))
    labctl.ok(*KUBERNETES, "--context", "school", "--namespace", "ann", *PLACE)
    (lab, request, *_), _ = inject.call_args
    assert (lab.view.kind, lab.name, request.target) == ("kubernetes", "school/ann", "w-0")
    assert labctl.opened == []


@pytest.mark.parametrize("advice", ["undo it first: labctl heal", "w-0 is under it: labctl heal undoes it"])
def test_advice_about_a_cluster_has_the_options_that_name_it(labctl: Labctl, advice: str) -> None:
    labctl.stub("lab.flows.recovery.inject", RefusedError("w-0 is under a fault", advice))
    stderr = labctl(*KUBERNETES, "--context", "our school", "--namespace", "ann", *PLACE).stderr
    options = (*PLACE, "--context", "'our school'", "--namespace", "ann")
    assert f"labctl heal --runtime kubernetes {' '.join(options)}" in stderr


def test_what_could_not_be_undone_on_a_cluster_is_not_restarted(labctl: Labctl) -> None:
    labctl.stub("lab.flows.recovery.heal.heal", (Healed("cordon", "w-0", "j", 1.0, "refused"),))
    result = labctl("heal", "--runtime", "kubernetes", "--context", "school", *PLACE)
    assert result.exit_code == 8
    assert "labctl heal --runtime kubernetes --storage s3://ray" in result.stderr
    assert "restart" not in result.stderr
