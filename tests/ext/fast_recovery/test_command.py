"""ladder: what it asks for, its table and document, its exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.ext.fast_recovery import command
from lab.ext.fast_recovery.documents import LadderDocument
from lab.ext.fast_recovery.ladder import FAULTS, RUNGS, Attempted, Ladder, LadderRequest
from lab.ext.fast_recovery.ladder.measure import Measured, StepRow
from tests.unit.cli.fakes import Labctl

STOCK, TORCHFT = RUNGS[0], RUNGS[-1]
ROWS = (StepRow(0, (-1.0, 3.0), (), (-1.0, 3.0)),)


def cost(gap: float) -> Measured:
    return Measured(0.68, gap, gap + 1, 94, 30_900_000, 0, 42.4, ROWS)


def result(*attempts: Attempted) -> Ladder:
    return Ladder("rank-kill", "local", tuple(attempt.rung for attempt in attempts), attempts)


@pytest.fixture
def ladder(labctl: Labctl) -> Any:
    labctl.stub("lab.host.environment.ensure")
    made = result(
        Attempted(STOCK, 1, "j", "recovered", cost(34.2)),
        Attempted(TORCHFT, 1, "k", "as-expected", cost(0.44)),
    )
    return labctl.stub("lab.ext.fast_recovery.ladder.climb", made)


def test_rungs_stand_side_by_side(labctl: Labctl, ladder: Any) -> None:
    shown = labctl.ok("ladder").splitlines()
    assert shown[0].split()[:4] == ["RUNG", "DETECTED", "LONGEST", "GAP"]
    assert shown[1].split()[:9] == ["stock", "0.68", "s", "34.2", "s", "35.2", "s", "94", "30.9"]
    assert shown[2].split()[:5] == ["torchft", "0.68", "s", "0.44", "s"]
    assert labctl.opened == [("auto", "raylab-ladder")]
    assert ladder.call_args.args[1] == LadderRequest()


def test_it_asks_for_what_was_typed(labctl: Labctl, ladder: Any) -> None:
    labctl.ok("ladder", "--rungs", "stock,torchft", "--runs", "3", "--fault", "kill", "--lab", "mine")
    assert ladder.call_args.args[1] == LadderRequest(("stock", "torchft"), "kill", 3)
    assert labctl.opened == [("auto", "mine-ladder")]


def test_its_faults_are_those_of_the_flow() -> None:
    assert command.FAULTS == FAULTS


@pytest.mark.parametrize("line", [("--rungs", "stock,"), ("--fault", "pause"), ("--runs", "0")])
def test_what_makes_no_sense_is_refused(labctl: Labctl, ladder: Any, line: tuple[str, str]) -> None:
    assert labctl("ladder", *line).exit_code == 2
    assert not ladder.called


@pytest.mark.usefixtures("ladder")
def test_its_document_fits_its_schema(labctl: Labctl) -> None:
    document = labctl.json("ladder")
    assert plain(parse(LadderDocument, document, "the ladder")) == document
    assert document["rungs"][0]["median"]["longest_gap"] == 34.2


@pytest.mark.usefixtures("ladder")
def test_the_picture_is_written(labctl: Labctl, tmp_path: Path) -> None:
    labctl.ok("ladder", "--png", str(tmp_path / "ladder.png"))
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_without_a_place_is_refused_before_anything_starts(
    labctl: Labctl, ladder: Any, tmp_path: Path
) -> None:
    assert labctl("ladder", "--png", str(tmp_path / "nowhere" / "a.png")).exit_code == 2
    assert not ladder.called


def test_what_a_machine_cannot_do_is_said_and_is_no_failure(labctl: Labctl) -> None:
    why = "torchft has no packages for this machine"
    labctl.stub(
        "lab.ext.fast_recovery.ladder.climb", result(Attempted(TORCHFT, 1, reason=why, impossible=True))
    )
    assert f"torchft, run 1: not possible here: {why}" in labctl.ok("ladder")


def test_a_rung_that_went_wrong_is_a_failure(labctl: Labctl) -> None:
    labctl.stub("lab.ext.fast_recovery.ladder.climb", result(Attempted(STOCK, 1, reason="the job failed")))
    shown = labctl("ladder")
    assert shown.exit_code == 10
    assert "stock, run 1: not measured: the job failed" in shown.stdout
    assert "the rung stock went wrong: the job failed" in shown.stderr


def test_after_ctrl_c_what_was_measured_is_shown(labctl: Labctl) -> None:
    made = result(Attempted(STOCK, 1, "j", "recovered", cost(34.2)))
    labctl.stub("lab.ext.fast_recovery.ladder.climb", replace(made, interrupt=KeyboardInterrupt()))
    shown = labctl("ladder")
    assert shown.exit_code == 130
    assert "34.2 s" in shown.stdout
    assert "interrupted" in shown.stderr
