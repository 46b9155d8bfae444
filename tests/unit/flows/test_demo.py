"""The demo, from the boot to the comparison with an undisturbed run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.cluster.submission import Submitted
from lab.errors import JobError, LabError, NotFoundError, UsageError, WaitTimeoutError
from lab.evidence.receipt import Verdict
from lab.flows.demo import BREAK_AFTER_EPOCH, DemoRequest, DemoResult, run_demo
from lab.lab import Lab
from lab.runtime.base import ignore_progress
from lab.topology import LabSpec
from tests.unit.fakes import FakeJobs
from tests.unit.flows.world import W0, W1, Drill, Training

SPEC = LabSpec(workers=2, cpus_per_worker=2)


@pytest.fixture
def submitted(world: Drill, monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    """Every job that the demo submits; they train by themselves."""
    trainings: list[Training] = []

    def submit(self: Lab, name: str, settings: Mapping[str, str], *, job_name: str = "") -> Submitted:
        assert name == "digits"
        job = f"{job_name}-{len(trainings)}"
        workers = int(settings["workers"])
        trainings.append(
            Training(world, int(settings["epochs"]), workers, job=job, on=(W0, W1)[:workers], start_after=3.0)
        )
        return Submitted(job)

    def again(
        self: FakeJobs, job: str, metadata: Mapping[str, str], folder: Path | None = None, **_: object
    ) -> str:
        (first,) = (t for t in trainings if t.job == job)
        control = f"{metadata.get('job_name', 'control')}-{len(trainings)}"
        trainings.append(
            Training(world, first.epochs, first.ranks, job=control, on=first.on, start_after=3.0)
        )
        return control

    def stay_connected(self: Lab) -> None:
        pass

    monkeypatch.setattr(Lab, "submit_recipe", submit)
    monkeypatch.setattr(FakeJobs, "submit_again", again)
    monkeypatch.setattr(Lab, "forget_connections", stay_connected)
    return trainings


def run(world: Drill, request: DemoRequest, spec: LabSpec = SPEC) -> DemoResult:
    return run_demo(
        world.lab,
        spec,
        request,
        ignore_progress,
        world.moments.append,
        clock=world.clock,
    )


@pytest.mark.parametrize("fault", ["kill", "stop", "pause"])
def test_the_demo_recovers_and_ends_as_if_undisturbed(
    world: Drill, submitted: list[Training], fault: str
) -> None:
    result = run(world, DemoRequest(fault=fault))

    assert result.receipt.verdict is Verdict.RECOVERED, result.receipt
    assert result.control is not None
    assert result.control.comparison.weights == "equal"
    assert result.receipt.fault.target == W0
    assert [t.job for t in submitted] == [result.receipt.job.submission_id, result.control.submission_id]
    assert [t.attempt for t in submitted] == [2, 1]
    assert set(result.seconds) == {"up", "train and recover", "control run"}
    assert world.moment_keys()[:4] == ["submitted", "waiting", "placed", "waiting"]
    assert world.healthy()


def test_the_fault_comes_after_the_promised_epoch(world: Drill, submitted: list[Training]) -> None:
    result = run(world, DemoRequest(control=False))

    assert result.receipt.checkpoint is not None
    assert result.receipt.checkpoint.epoch is not None
    assert BREAK_AFTER_EPOCH <= result.receipt.checkpoint.epoch <= BREAK_AFTER_EPOCH + 1


def test_without_a_control_run_nothing_is_compared(world: Drill, submitted: list[Training]) -> None:
    result = run(world, DemoRequest(control=False))

    assert (result.control, len(submitted)) == (None, 1)


def test_two_workers_are_trained_on_both_nodes(world: Drill, submitted: list[Training]) -> None:
    result = run(world, DemoRequest(workers=2, control=False))

    assert result.receipt.attempts[0].nodes == (W0, W1)
    assert result.receipt.verdict is Verdict.RECOVERED, result.receipt


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (DemoRequest(epochs=BREAK_AFTER_EPOCH + 1), UsageError, "--epochs 6"),
        (DemoRequest(workers=3), UsageError, "--workers 3: the lab has 2 workers"),
        (DemoRequest(fault="s3-down"), UsageError, "--fault s3-down: the demo breaks the node or"),
        (DemoRequest(fault="nan-at-epoch"), UsageError, "nan-at-epoch needs a value for epoch"),
        (DemoRequest(fault="nonsense"), NotFoundError, "no fault 'nonsense'"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_the_boot(
    world: Drill, submitted: list[Training], request_: DemoRequest, error: type[LabError], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(world, request_)
    assert not world.host.journal
    assert not submitted


def test_a_job_that_fails_before_it_trains_is_told(world: Drill, submitted: list[Training]) -> None:
    world.clock.after(1.0, lambda: world.jobs.become("FAILED", "demo-0", at=world.clock()))

    with pytest.raises(JobError, match=r"demo-0 .*FAILED"):
        run(world, DemoRequest())


def test_a_job_that_is_never_placed_is_told(
    world: Drill, submitted: list[Training], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "begin", lambda self: None)

    with pytest.raises(WaitTimeoutError, match=r"demo-0 .*300 s.* RUNNING; nothing"):
        run(world, DemoRequest())


def test_a_control_run_that_fails_is_told(world: Drill, submitted: list[Training]) -> None:
    def fail_second() -> None:
        if len(submitted) == 2:
            world.jobs.become("FAILED", submitted[1].job, at=world.clock())
        else:
            world.clock.after(1.0, fail_second)

    world.clock.after(1.0, fail_second)

    result = run(world, DemoRequest())

    assert isinstance(result.problem, JobError)
    assert "undisturbed run control-1 ended FAILED" in result.problem.message
    assert result.receipt.verdict is Verdict.RECOVERED, "the receipt is not lost with it"
    assert result.control is None
    assert "problem" in world.moment_keys()
