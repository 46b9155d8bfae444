"""The loss of the head: the job is forgotten, goes on, or is submitted again and resumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.api.base import plain
from lab.cluster.jobs import Job
from lab.cluster.submission import RESUME_VARIABLE, RESUMES
from lab.errors import NotFoundError, RefusedError
from lab.evidence.receipt import Verdict
from lab.faults import FAULTS
from lab.faults.kinds.head_kill import HeadKill
from lab.services import HEAD
from lab.topology import LabSpec
from tests.unit.flows.world import JOB, RUN, W0, Drill, Training

AGAIN = "j2"


@pytest.fixture(autouse=True)
def clock(world: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, "head-kill", lambda: HeadKill(world.clock))


def with_redis(world: Drill) -> None:
    world.runtime.down()
    world.runtime.up(LabSpec(workers=2, cpus_per_worker=2, gcs_ft=True))
    world.clock.sleep(5)
    world.begin = world.clock()


def end_with_the_head(world: Drill, status: str = "FAILED") -> None:
    """The job dies when the head does."""

    def look() -> None:
        head = world.runtime.status().service(HEAD)
        if head is not None and head.state.value == "exited":
            world.jobs.become(status, at=world.clock())
        elif not world.jobs.get(JOB).final:
            world.clock.after(0.2, look)

    world.clock.after(0.2, look)


def test_a_job_that_died_with_its_head_is_submitted_again_and_resumes(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_redis(world)
    first = Training(world)
    end_with_the_head(world)
    asked: list[tuple[Mapping[str, str], Mapping[str, str] | None]] = []

    def submit_again(
        job: str,
        metadata: Mapping[str, str],
        folder: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        asked.append((metadata, environment))
        second = Training(world, job=AGAIN, first=first.done + 1, name=RUN)
        second.attempt = 0
        world.clock.after(0.5, lambda: world.write(
            "checkpoint_loaded", AGAIN, attempt=1, rank=0, uri=first.uri(first.done),
            files=first.files(first.done),
        ))  # fmt: skip
        return AGAIN

    monkeypatch.setattr(world.jobs, "submit_again", submit_again)
    receipt = world.inject("", "head-kill", after_epoch=3).receipt

    assert receipt is not None
    assert asked == [({RESUMES: JOB}, {RESUME_VARIABLE: RUN})]
    assert receipt.job.resubmitted_as == AGAIN
    assert plain(receipt)["job"] == {
        "submission_id": JOB, "status": "SUCCEEDED", "resubmitted_as": AGAIN
    }  # fmt: skip
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert [a.attempt for a in receipt.attempts] == [1, 2]
    assert "resubmitted" in world.moment_keys()


def test_a_job_that_goes_on_under_the_new_head_is_not_submitted_again(world: Drill) -> None:
    with_redis(world)
    Training(world, epochs=20)

    receipt = world.inject("", "head-kill", after_epoch=3).receipt

    assert receipt is not None
    assert receipt.verdict.good, receipt
    assert receipt.job.resubmitted_as is None


def test_without_a_memory_the_job_is_forgotten_and_has_failed(
    world: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    Training(world, epochs=20)
    get = world.jobs.get

    def forgetful(job: str) -> Job:
        if any(c.method == "start" and c.service == HEAD for c in world.host.journal):
            raise NotFoundError(f"there is no job {job!r}")
        return get(job)

    monkeypatch.setattr(world.jobs, "get", forgetful)
    receipt = world.inject("", "head-kill", after_epoch=3).receipt

    assert receipt is not None
    assert receipt.job.status == "FAILED"
    assert receipt.verdict is Verdict.AS_EXPECTED, receipt
    assert "the head was lost, and with it job j1" in receipt.checks[0].detail
    assert receipt.job.resubmitted_as is None
    assert world.healthy()


def test_only_the_head_can_be_hit(world: Drill) -> None:
    Training(world)
    with pytest.raises(RefusedError, match="of ray-head, not of ray-worker-0"):
        world.inject(W0, "head-kill")
