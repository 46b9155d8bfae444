"""While a job is followed: why it waits is said once, and again when that changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lab.cli.output import Output
from lab.cli.why_waiting import Waits
from lab.cluster.allocation import Holding, Waiting
from lab.errors import ClusterError
from tests.fakes import FakeClock
from tests.unit.cli.fakes import Labctl
from tests.unit.fakes import job

OTHERS = Waiting(
    "job-1", "others", "ranks", {"GPU": 1.0}, 2, "needs 2 x 1 GPU; free: ray-worker-0 0 GPU",
    (Holding("job-0", "ray-worker-0", {"GPU": 1.0}, "rank 0"),), ("GPU",),
)  # fmt: skip
NEVER = Waiting("job-1", "infeasible", "entrypoint", {"GPU": 2.0}, 1, "no node has 2 GPU; the largest has 1")


class Followed:
    """A job that is followed, a lab that knows why it waits, and a clock."""

    def __init__(self, labctl: Labctl, capsys: pytest.CaptureFixture[str], *, said: str = "") -> None:
        self.clock, self.capsys = FakeClock(0.0), capsys
        self.reasons = labctl.stub("waiting_jobs")
        self.waits = Waits(Output(), labctl.lab, self.clock, said=said)

    def after(
        self, seconds: float, reason: Waiting | Exception | None = None, status: str = "PENDING"
    ) -> str:
        """Let that time pass while the job waits for this reason; returns what is said then."""
        self.clock.sleep(seconds)
        self.reasons.side_effect = reason if isinstance(reason, Exception) else None
        self.reasons.return_value = {} if reason is None else {"job-1": reason}
        self.waits.poll(job("job-1", status))
        return self.capsys.readouterr().err


@pytest.fixture
def followed(labctl: Labctl, capsys: pytest.CaptureFixture[str]) -> Followed:
    return Followed(labctl, capsys)


def test_the_holder_is_named_within_a_few_seconds_and_once(followed: Followed) -> None:
    assert followed.after(1, OTHERS) == ""
    assert followed.after(3, OTHERS) == (
        "job job-1 runs, but its ranks wait: needs 2 x 1 GPU; free: ray-worker-0 0 GPU; "
        "held by job-0 (rank 0: 1 GPU on ray-worker-0)\n"
    )
    assert followed.after(3, OTHERS) == ""


def test_another_holder_is_said_and_other_free_amounts_are_not(followed: Followed) -> None:
    followed.after(3, OTHERS)
    assert followed.after(3, dataclasses.replace(OTHERS, reason="needs 2 x 1 GPU; free: 0.1 GPU")) == ""
    other = Holding("job-9", "ray-worker-1", {"GPU": 1.0}, "entrypoint")
    assert "job-9" in followed.after(3, dataclasses.replace(OTHERS, holders=(other,)))


def test_the_end_of_the_wait_is_said(followed: Followed) -> None:
    followed.after(3, OTHERS)
    assert followed.after(3, None, "RUNNING") == "job job-1 has what it waited for\n"
    assert followed.after(6, None, "RUNNING") == ""


def test_a_job_that_never_waited_hears_nothing(followed: Followed) -> None:
    starting = dataclasses.replace(NEVER, kind="starting")
    assert followed.after(3, starting) == ""
    assert followed.after(6, None, "RUNNING") == ""


def test_starting_between_two_looks_is_no_end_of_the_wait(followed: Followed) -> None:
    followed.after(3, OTHERS)
    assert followed.after(3, dataclasses.replace(OTHERS, kind="starting", holders=())) == ""
    assert followed.after(3, OTHERS) == ""


def test_ranks_that_can_never_start_are_a_warning_with_a_way_out(followed: Followed) -> None:
    said = followed.after(3, NEVER)
    assert "warning: job job-1 waits: no node has 2 GPU; the largest has 1\n" in said
    assert "cancel it: `labctl jobs stop job-1`" in said


def test_what_the_submission_said_is_not_said_again(
    labctl: Labctl, capsys: pytest.CaptureFixture[str]
) -> None:
    followed = Followed(labctl, capsys, said="no node has 2 GPU; the largest has 1")
    assert followed.after(3, NEVER) == ""
    assert "job-0" in followed.after(3, OTHERS)
    assert "no node has 2 GPU" in followed.after(3, NEVER)


def test_a_job_that_prints_is_not_asked_about(followed: Followed) -> None:
    for _ in range(4):
        followed.waits.heard()
        assert followed.after(2, OTHERS) == ""


def test_a_silent_job_that_runs_is_asked_about_ever_more_seldom(followed: Followed) -> None:
    looks = []
    for second in range(1, 301):
        before = followed.reasons.call_count
        followed.after(1, None, "RUNNING")
        looks += [second] * (followed.reasons.call_count - before)
    assert looks[:4] == [3.0, 9.0, 21.0, 45.0]
    assert looks[-1] - looks[-2] == 30.0


def test_a_silent_dashboard_is_borne(followed: Followed) -> None:
    assert followed.after(3, ClusterError("no answer")) == ""
    assert followed.after(3, OTHERS) != ""


def test_submit_tells_it_on_stderr_while_it_follows(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cli.why_waiting.SILENT_SECONDS", 0.0)
    labctl.jobs.ends = job("job-1", "RUNNING")
    labctl.stub("waiting_jobs", {"job-1": OTHERS})
    ended: list[Any] = []
    real = labctl.jobs.get

    def get(submission_id: str) -> Any:
        ended.append(submission_id)
        return real(submission_id) if len(ended) < 3 else job("job-1")

    monkeypatch.setattr(labctl.jobs, "get", get)
    result = labctl("submit", "digits")
    assert "its ranks wait: needs 2 x 1 GPU" in result.stderr
    assert result.stdout == "epoch 1/3\nepoch 2/3\n"
