"""The control run: what it repeats, what it compares, and when it is refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lab.api.base import plain
from lab.cluster.jobs import Job
from lab.errors import JobError, RefusedError, UsageError, WaitTimeoutError
from lab.evidence.receipt import Verdict
from lab.flows.recovery.control import CONTROL_OF, Control, control_of, refuse_fixed_names, run_control
from lab.services import HEAD
from lab.topology import RECEIPTS_PREFIX
from tests.unit.fakes import FakeJobs
from tests.unit.flows.world import JOB, Drill, Training

ORIGINAL = "digits-20261121"
Submitted = list[tuple[str, Mapping[str, str], Path | None]]


@pytest.fixture
def original(world: Drill) -> Training:
    """A job that has trained to its end."""
    training = Training(world, epochs=4, job=ORIGINAL)
    while not world.jobs.get(ORIGINAL).final:
        world.clock.sleep(0.5)
    return training


@pytest.fixture
def submitted(world: Drill, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """What was submitted again; it trains by itself."""
    calls: Submitted = []

    def again(
        self: FakeJobs, job: str, metadata: Mapping[str, str], folder: Path | None = None, **_: object
    ) -> str:
        calls.append((job, metadata, folder))
        Training(world, epochs=4, job="control-1")
        return "control-1"

    monkeypatch.setattr(FakeJobs, "submit_again", again)
    return calls


def control(world: Drill, job: str = ORIGINAL) -> Control:
    return run_control(world.lab, job, world.moments.append, clock=world.clock)


def test_the_same_job_is_trained_again_and_compared(
    world: Drill, original: Training, submitted: Submitted
) -> None:
    result = control(world)

    assert submitted == [(ORIGINAL, {CONTROL_OF: ORIGINAL}, None)]
    assert (result.job, result.submission_id) == (ORIGINAL, "control-1")
    assert result.comparison.weights == "equal"
    assert result.comparison.detail.startswith("epoch 4, ")
    assert "reported by one of the runs only" not in result.curves.detail
    assert 4 < result.seconds < 10
    assert result.document().weights == "equal"
    assert [m.text for m in world.moments if m.key == "progress"][-1] == "control run: epoch 4"
    assert world.moment_keys()[0] == "control"
    assert world.moment_keys()[-1] == "compared"


def test_a_run_that_differs_is_said(world: Drill, original: Training, submitted: Submitted) -> None:
    world.write("report", ORIGINAL, run=original.run, attempt=2, rank=0, metrics={"epoch": 5, "loss": 1.0})
    result = control(world)
    assert result.comparison.detail.startswith("epoch 5 and 4, ")
    assert result.curves.metrics["loss"][-1] == (5, 1, None)


def test_a_job_that_still_runs_is_refused(world: Drill, submitted: Submitted) -> None:
    Training(world, epochs=4, job=ORIGINAL)
    with pytest.raises(RefusedError, match="RUNNING"):
        control(world)
    assert submitted == []


def test_a_fixed_run_name_is_refused_before_anything_is_submitted(world: Drill, submitted: Submitted) -> None:
    Training(world, epochs=2)  # its run is called "run"
    world.clock.sleep(10)
    with pytest.raises(RefusedError, match="'run'") as caught:
        control(world, JOB)
    assert "RunConfig" in caught.value.hint
    assert submitted == []


STARTED = 1795885000.0
"""2026-11-28 16:56:40 UTC."""


@pytest.mark.parametrize(
    ("name", "command", "changes"),
    [
        ("ray_train_run-2026-11-28_16-56-42", "python x.py", True),
        ("run-2026-11-28T17:56", "python x.py", True),
        ("20261128-165642", "python x.py", True),
        ("run-2026-11-28_16-56-42", "python x.py run-2026-11-28_16-56-42", False),
        ("run-2026-10-03_16-56-42", "python x.py", False),
        ("run-2026-11-28", "python x.py", False),
        ("run-20261128", "python x.py", False),
        ("exp-1795885001", "python x.py", True),
        ("exp-1795885001123", "python x.py", True),
        ("exp-1795885001", "python x.py exp-1795885001", False),
        ("exp-1795875062", "python x.py", False),
        ("exp-123456", "python x.py", False),
        ("exp-3fa94c1e", "python x.py", True),
        ("exp-3fa94c1e", "RUN=3fa94c1e python x.py", False),
        ("0a1b2c3d-1111-4222-8333-0123456789ab", "python x.py", True),
        ("exp-deadbeef", "python x.py", False),
        ("exp-of-job-7", "python x.py", True),
        ("exp", "python x.py", False),
    ],
)
def test_a_name_is_another_one_each_time_if_a_part_of_it_was_made_while_the_job_ran(
    world: Drill, name: str, command: str, changes: bool
) -> None:
    world.jobs.add(Job("job-7", "RUNNING", entrypoint=command, started_at=STARTED))
    world.write("run_started", "job-7", run=name, at=STARTED + 3)
    world.write("attempt_scheduled", "job-7", run=name, attempt=1, at=STARTED + 4)
    with contextlib.nullcontext() if changes else pytest.raises(RefusedError, match="calls its run"):
        refuse_fixed_names(world.lab, "job-7", world.lab.history("job-7"))


@pytest.mark.parametrize(
    ("happens", "message"),
    [
        (lambda w: w.write("run_started", "control-1", run=f"run-{ORIGINAL}"), "has the same run name"),
        (
            lambda w: w.write(
                "get_checkpoint", "control-1", run="new-20261121", attempt=1, rank=0, uri="s3://ray/x"
            ),
            "began with the checkpoint s3://ray/x",
        ),
    ],
)
def test_a_control_run_that_resumes_is_stopped_and_refused(
    world: Drill,
    original: Training,
    submitted: Submitted,
    happens: Callable[[Drill], None],
    message: str,
) -> None:
    world.clock.after(2.0, lambda: happens(world))
    with pytest.raises(RefusedError, match=message):
        control(world)
    assert world.jobs.get("control-1").status == "STOPPED"


def test_a_control_run_that_fails_is_an_error(world: Drill, original: Training, submitted: Submitted) -> None:
    world.clock.after(2.0, lambda: world.jobs.become("FAILED", "control-1", at=world.clock()))
    with pytest.raises(JobError, match="control-1 ended FAILED"):
        control(world)


def test_a_control_run_that_fails_costs_no_receipt(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(
        self: FakeJobs, job: str, metadata: Mapping[str, str], folder: Path | None = None, **_: object
    ) -> str:
        raise JobError("its files are gone")

    monkeypatch.setattr(FakeJobs, "submit_again", refuse)
    Training(world, job=ORIGINAL)
    receipt = world.inject(job=ORIGINAL, control=True).receipt
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert receipt.control is None
    assert "no control run: its files are gone" in world.moments[-1].text
    assert receipt.problems == ("no control run: its files are gone",)
    files = world.store.buckets["ray"].items()
    kept = [json.loads(body) for key, (body, _) in files if key.startswith(RECEIPTS_PREFIX)]
    assert [file["problems"] for file in kept if "verdict" in file] == [list(receipt.problems)]


def test_a_name_that_shows_only_while_the_fault_waits_is_refused_before_it(
    world: Drill, submitted: Submitted
) -> None:
    """The job was only just submitted: its run has not begun."""
    world.clock.after(3.0, lambda: Training(world, epochs=9))
    world.jobs.become("RUNNING", JOB)
    with pytest.raises(RefusedError, match="'run'"):
        world.inject(control=True)
    assert not world.calls()
    assert submitted == []


@pytest.mark.parametrize(
    ("undisturbed", "verdict"), [(12, Verdict.RECOVERED), (14, Verdict.FAILED), (None, Verdict.NOT_VERIFIED)]
)
def test_the_control_run_decides_whether_a_job_that_ended_before_its_plan_lost_epochs(
    world: Drill, monkeypatch: pytest.MonkeyPatch, undisturbed: int | None, verdict: Verdict
) -> None:
    def again(
        self: FakeJobs, job: str, metadata: Mapping[str, str], folder: Path | None = None, **_: object
    ) -> str:
        Training(world, epochs=undisturbed or 1, planned=20, job="control-1")
        return "control-1"

    monkeypatch.setattr(FakeJobs, "submit_again", again)
    Training(world, epochs=12, planned=20, job=ORIGINAL)
    receipt = world.inject(job=ORIGINAL, control=undisturbed is not None).receipt
    assert receipt is not None
    assert receipt.verdict is verdict, receipt
    (entry,) = world.store.list(f"{RECEIPTS_PREFIX}/")
    assert json.loads(world.store.get(entry.key)) == plain(receipt)
    assert (receipt.control is None) == (undisturbed is None)


def test_a_job_that_dies_with_its_head_has_no_control_run(world: Drill, original: Training) -> None:
    with pytest.raises(UsageError, match="head-kill with a control run"):
        world.inject(HEAD, "head-kill", control=True)
    assert world.calls() == []


def test_a_control_run_that_takes_too_long_is_stopped(
    world: Drill, original: Training, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "begin", lambda self: None)
    with pytest.raises(WaitTimeoutError, match="RUNNING"):
        control(world)
    assert world.jobs.get("control-1").status == "STOPPED"


def test_an_interrupt_stops_the_control_run(
    world: Drill, original: Training, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.clock, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        control(world)
    assert world.jobs.get("control-1").status == "STOPPED"


def test_the_newest_control_run_that_succeeded_is_found(world: Drill) -> None:
    jobs = []
    for name, status, of in (("c", "FAILED", "a"), ("b", "SUCCEEDED", "a"), ("d", "SUCCEEDED", "x")):
        world.jobs.become(status, name)
        job = world.jobs.get(name)
        jobs.append(type(job)(**{**job.__dict__, "metadata": {CONTROL_OF: of}}))
    found_control = control_of(tuple(jobs), "a")
    assert found_control is not None
    assert found_control.submission_id == "b"
    assert control_of(tuple(jobs), "c") is None
