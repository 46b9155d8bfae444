"""demo: what it asks for, what it shows, how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.api.base import plain
from lab.errors import INTERRUPTED, JobError, LabError, RefusedError, SetupError, WaitTimeoutError
from lab.evidence.ledger import History
from lab.evidence.receipt import Comparison, compare_curves
from lab.flows.demo import DemoRequest, DemoResult
from lab.flows.recovery import Control, OnMoment
from lab.lab import Lab
from lab.runtime.base import OnProgress
from lab.topology import LabSpec, Progress, State
from tests.unit.cli.fakes import MOMENTS, Labctl, receipt
from tests.unit.fakes import job


def ends_with(labctl: Labctl, verdict: str = "recovered", problem: LabError | None = None) -> Any:
    """Let every demo end so; with a `problem` there is no control run."""

    def run_demo(
        lab: Lab, spec: LabSpec, request: DemoRequest, on_progress: OnProgress, on_moment: OnMoment
    ) -> DemoResult:
        lab.up(spec, on_progress)
        for moment in MOMENTS:
            on_moment(moment)
        same = Comparison("equal", "epoch 20, weights_sha256 3f3f")
        none = History(())
        control = Control("job-1", "job-2", same, compare_curves(none, none), 50.0, none)
        seconds = {"up": 9.25, "train and recover": 60.0}
        compared = control if request.control and problem is None else None
        return DemoResult(receipt(verdict), compared, seconds, problem)

    return labctl.stub("lab.flows.demo.run_demo", run_demo)


@pytest.fixture
def demo(labctl: Labctl) -> Any:
    """A demo that ends well."""
    return ends_with(labctl)


@pytest.mark.usefixtures("demo")
def test_demo_tells_the_whole_story(labctl: Labctl) -> None:
    labctl.down()
    result = labctl("demo", "--gpu", "none")
    assert result.exit_code == 0
    assert "runtime: fake (auto: no Docker Engine answers)" in result.stderr
    assert "ray-head        healthy" in result.stderr
    for line in (
        "weights, compared with an undisturbed run: identical, bit for bit",
        "train and recover  60.0 s",
        f"dashboard       {labctl.runtime.endpoints().dashboard}",
        "stop the lab    labctl down",
    ):
        assert line in result.stdout


def test_demo_asks_for_what_was_typed(labctl: Labctl, demo: Any) -> None:
    labctl.ok("demo", "--fault", "stop", "--workers", "2", "--epochs", "9", "--no-control")
    labctl.ok("demo")
    assert [call.args[2] for call in demo.call_args_list] == [
        DemoRequest(fault="stop", workers=2, epochs=9, control=False),
        DemoRequest(),
    ]


@pytest.mark.usefixtures("demo")
def test_demo_as_json_ends_with_the_receipt(labctl: Labctl) -> None:
    first, last = labctl.ok("demo", "--json").splitlines()
    assert json.loads(last) == plain(receipt())
    assert json.loads(first) == {
        "demo": {
            "seconds": {"up": 9.25, "train and recover": 60.0},
            "comparison": {"weights": "equal", "detail": "epoch 20, weights_sha256 3f3f"},
            "dashboard": labctl.runtime.endpoints().dashboard,
        }
    }


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_demo_whose_control_run_fails_shows_its_receipt_and_exits_with_the_error(
    labctl: Labctl, arguments: list[str]
) -> None:
    ends_with(labctl, problem=JobError("the undisturbed run job-2 ended FAILED", "labctl jobs logs job-2"))
    result = labctl("demo", *arguments)
    assert result.exit_code == JobError.exit_code
    assert "recovered" in result.stdout.lower()
    assert "error: the undisturbed run job-2 ended FAILED" in result.stderr


@pytest.mark.usefixtures("demo")
def test_demo_without_control_compares_nothing(labctl: Labctl) -> None:
    assert "weights, compared" not in labctl.ok("demo", "--no-control")
    assert (
        json.loads(labctl.ok("demo", "--no-control", "--json").splitlines()[0])["demo"]["comparison"] is None
    )


@pytest.mark.parametrize("fail", [None, RefusedError("no"), KeyboardInterrupt()])
def test_demo_stops_the_lab_when_asked_whatever_happens(labctl: Labctl, fail: BaseException | None) -> None:
    labctl.stub("lab.flows.demo.run_demo", fail) if fail else ends_with(labctl)
    labctl("demo", "--down")
    assert labctl.changes()[-1] == "down"


@pytest.mark.usefixtures("demo")
def test_demo_leaves_the_lab_up_by_default(labctl: Labctl) -> None:
    labctl.ok("demo")
    assert labctl.lab.status().up


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(("arguments", "started"), [([], 1), (["--down"], 0)])
def test_what_the_demo_left_out_is_started_last_unless_the_lab_goes_down(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch, arguments: list[str], started: int
) -> None:
    done: list[str] = []

    def start(on_progress: OnProgress) -> None:
        done.append("started")
        on_progress(Progress("jupyter", State.HEALTHY))

    monkeypatch.setattr(labctl.runtime, "start_left_out", start)
    result = labctl.ok("demo", *arguments)
    assert "recovery receipt" in result
    assert len(done) == started


@pytest.mark.parametrize(("verdict", "code"), [("recovered", 0), ("failed", 10)])
def test_what_was_left_out_and_cannot_be_started_is_told_and_decides_nothing(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch, verdict: str, code: int
) -> None:
    def start(_: OnProgress) -> None:
        raise SetupError("installing jupyter failed: no network", "repeat")

    monkeypatch.setattr(labctl.runtime, "start_left_out", start)
    ends_with(labctl, verdict)
    result = labctl("demo")
    assert result.exit_code == code
    assert "not all of the lab runs: installing jupyter failed: no network" in result.stderr
    assert "recovery receipt" in result.stdout


@pytest.mark.parametrize(("verdict", "code"), [("as-expected", 0), ("failed", 10)])
def test_only_what_should_happen_is_success(labctl: Labctl, verdict: str, code: int) -> None:
    ends_with(labctl, verdict)
    result = labctl("demo")
    assert result.exit_code == code
    assert "recovery receipt" in result.stdout


def test_an_interrupt_is_130(labctl: Labctl) -> None:
    labctl.stub("lab.flows.demo.run_demo", KeyboardInterrupt())
    assert labctl("demo").exit_code == INTERRUPTED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WaitTimeoutError("job-9 has no worker")])
def test_a_demo_that_ends_early_says_what_runs_on_and_how_to_end_it(
    labctl: Labctl, error: BaseException
) -> None:
    def run_demo(lab: Lab, spec: LabSpec, *_: object) -> DemoResult:
        lab.up(spec)
        raise error

    labctl.stub("lab.flows.demo.run_demo", run_demo)
    labctl.jobs.known = {known.submission_id: known for known in (job("job-8"), job("job-9", "RUNNING"))}
    said = labctl("demo").stderr
    assert "lab raylab runs on, and job job-9 in it" in said
    assert "end them: `labctl jobs stop job-9 --lab raylab`, `labctl down --lab raylab`" in said
    assert "job-8" not in said
    labctl.jobs.known.clear()
    assert "lab raylab runs on; end it: `labctl down --lab raylab`" in labctl("demo").stderr


@pytest.mark.parametrize("arguments", [[], ["--down"]])
def test_a_demo_that_leaves_no_lab_says_nothing_of_it(labctl: Labctl, arguments: list[str]) -> None:
    def run_demo(lab: Lab, spec: LabSpec, *_: object) -> DemoResult:
        lab.up(spec)
        if not arguments:  # as an `up` that is interrupted takes back what it has started
            lab.down()
        raise KeyboardInterrupt

    labctl.stub("lab.flows.demo.run_demo", run_demo)
    assert "runs on" not in labctl("demo", *arguments).stderr


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
    assert labctl.opened == []
