"""Receipts of preemptions: a job gives way to another one, gets its turn again, and resumes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lab.errors import RefusedError, VerdictError
from lab.faults import Scene, find_fault
from lab.topology import LEDGER_PREFIX, LabSpec
from tests.fakes.ledger import Streams
from tests.unit.cli.fakes import Labctl
from tests.unit.cli.queues import SIMULATED, QueueLab

EPOCHS = 6


class Teams(QueueLab):
    """Two teams with a GPU each; a training of blue's that borrows red's writes its ledger."""

    def __init__(self, labctl: Labctl, folder: Path) -> None:
        super().__init__(labctl, folder)
        labctl.ok("queue", "apply", "--example", "two-teams")
        self.clock = labctl.runtime.clock
        self.written, self.streams = 0, Streams()
        self.job = self.submit("blue", "2")

    def submit(self, queue: str, workers: str) -> str:
        line = ("submit", "digits", "--detach", "--queue", queue, "-p", f"workers={workers}")
        return self.labctl.ok(*line, "--preemption-grace", "0s").strip()

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.step()

    def write(self, event: str, job: str, **fields: Any) -> None:
        self.written += 1
        entry = {
            "schema": "ledger/1", "event": event, "at": self.clock(), "job": job, "run": self.job, **fields
        }  # fmt: skip
        entry = self.streams.numbered(entry)
        key = f"{LEDGER_PREFIX}/{job}/x-{self.written:06d}.jsonl"
        self.labctl.store.buckets["ray"][key] = (json.dumps(entry).encode(), self.clock())

    def train(self, job: str, epochs: range, loads: int | None = None) -> None:
        """One attempt of one rank, an epoch and a checkpoint a second."""
        workers = [{"rank": 0, "node_id": "a", "pid": self.written + 100}]
        self.write("run_started", job, attempt=0, config={"epochs": EPOCHS}, num_workers=1)
        self.write("attempt_scheduled", job, attempt=1)
        self.write("attempt_started", job, attempt=1, workers=workers)
        if loads is not None:
            self.write("get_checkpoint", job, attempt=1, rank=0, uri=uri(loads))
            self.write("checkpoint_loaded", job, attempt=1, rank=0, uri=uri(loads), files=files(loads))
        mine = {"attempt": 1, "rank": 0}
        self.write("state_begun", job, **mine, optimizer=0, gradients=True, state=state(loads or 0))
        for number, epoch in enumerate(epochs, 1):
            self.pass_time(1.0)
            saved = {"uri": uri(epoch), "metrics": {"epoch": epoch}}
            reported = {**mine, "report": number, "metrics": {"epoch": epoch}}
            self.write("state_handed", job, **reported, handed=True, state=state(epoch))
            self.write("checkpoint_saved", job, **mine, files=files(epoch), report=number, **saved)
            self.write("checkpoint_committed", job, attempt=1, **saved)
            self.write("report", job, **reported, handed=True)

    def preempt(self) -> str:
        """Let red take its GPU back for ten seconds; returns its job."""
        other = self.submit("red", "1")
        self.pass_time(1.0)
        self.pass_time(10.0)
        self.jobs.end(other)
        self.pass_time(1.0)
        return other

    def end(self, job: str) -> None:
        self.write("run_finished", job, attempt=1)
        self.jobs.end(job)
        self.pass_time(1.0)


def uri(epoch: int) -> str:
    return f"s3://ray/run/checkpoint_{epoch}"


def state(epoch: int) -> dict[str, Any]:
    return {"tensors": {"w": f"x{epoch}"}, "order": [["w"]]}


def files(epoch: int) -> dict[str, Any]:
    return {"model.pt": {"size": 1, "sha256": hashlib.sha256(str(epoch).encode()).hexdigest()}}


@pytest.fixture
def teams(labctl: Labctl, tmp_path: Path) -> Teams:
    labctl.runtime.down()
    labctl.runtime.up(LabSpec(gpu=SIMULATED))
    return Teams(labctl, tmp_path / "queue")


def test_a_job_that_gave_way_and_resumed_is_proven_to_have_recovered(teams: Teams) -> None:
    teams.train(teams.job, range(1, 4))
    red = teams.preempt()
    teams.train(f"{teams.job}-2", range(4, EPOCHS + 1), loads=3)
    teams.end(f"{teams.job}-2")
    result = teams.labctl("queue", "receipt", teams.job, "--json")
    assert result.exit_code == 0, result.output
    (receipt,) = json.loads(result.stdout)["receipts"]
    assert receipt["verdict"] == "recovered"
    assert receipt["lost_epochs"] == 0
    assert receipt["job"] == {
        "submission_id": teams.job, "status": "SUCCEEDED", "resubmitted_as": f"{teams.job}-2"
    }  # fmt: skip
    preemption = receipt["preemption"]
    assert (preemption["by"], preemption["by_queue"], preemption["queue"]) == (f"bob/{red}", "red", "blue")
    assert preemption["reason"] == "InCohortReclamation"
    assert preemption["gave_way_at"] <= preemption["by_admitted_at"] < preemption["admitted_again_at"]
    kept = [key for key in teams.labctl.store.buckets["ray"] if key.startswith(".raylab/receipts/")]
    assert len(kept) == 1


def test_each_of_several_preemptions_has_a_receipt(teams: Teams) -> None:
    second, third = f"{teams.job}-2", f"{teams.job}-3"
    teams.train(teams.job, range(1, 3))
    teams.preempt()
    teams.train(second, range(3, 5), loads=2)
    teams.preempt()
    teams.train(third, range(5, EPOCHS + 1), loads=4)
    teams.end(third)
    receipts = teams.labctl.json("queue", "receipt", second)["receipts"]
    assert [receipt["verdict"] for receipt in receipts] == ["recovered", "recovered"]
    assert [receipt["checkpoint"]["uri"] for receipt in receipts] == [uri(2), uri(4)]
    assert {receipt["job"]["resubmitted_as"] for receipt in receipts} == {third}


def test_a_job_that_began_again_is_told_so_and_exits_with_10(teams: Teams) -> None:
    teams.train(teams.job, range(1, 4))
    teams.preempt()
    teams.train(f"{teams.job}-2", range(1, EPOCHS + 1))
    teams.end(f"{teams.job}-2")
    result = teams.labctl("queue", "receipt", teams.job)
    assert result.exit_code == VerdictError.exit_code
    assert "RESTARTED FROM SCRATCH" in result.stdout


def test_a_job_that_goes_on_or_was_never_preempted_has_no_receipt(teams: Teams) -> None:
    running = teams.labctl("queue", "receipt", teams.job)
    assert running.exit_code == RefusedError.exit_code
    assert "has not ended: it is Admitted" in running.stderr
    teams.jobs.end(teams.job)
    teams.pass_time(1.0)
    never = teams.labctl("queue", "receipt", teams.job)
    assert never.exit_code == RefusedError.exit_code
    assert "was never preempted" in never.stderr


# The fault


def scene(teams: Teams, job: str, memo: dict[str, Any] | None = None) -> Scene:
    runtime = teams.labctl.runtime
    return Scene(
        runtime, "queue", job, {"hold": 10.0}, queues=teams.queues, memo={} if memo is None else memo
    )  # fmt: skip


def test_the_fault_submits_a_job_that_preempts_this_one_and_no_other(teams: Teams) -> None:
    fault, memo = find_fault("preemption"), dict[str, Any]()
    fault.inject(scene(teams, teams.job, memo))
    assert memo["queue"] == "bob/red"
    assert teams.labctl.json("queue", "describe", teams.job)["attempts_made"][0]["evicted"] == "Preempted"
    assert teams.labctl.json("queue", "describe", memo["rival"])["status"] == "Admitted"


def test_its_revert_ends_the_other_job_where_it_does_not_end_by_itself(teams: Teams) -> None:
    memo = dict[str, Any]()
    find_fault("preemption").inject(scene(teams, teams.job, memo))
    fault = find_fault("preemption")
    fault.clock = teams.clock
    fault.revert(scene(teams, teams.job, memo))
    assert teams.labctl.json("queue", "describe", memo["rival"])["status"] == "Finished"
    teams.pass_time(1.0)
    assert teams.labctl.json("queue", "describe", teams.job)["status"] == "Admitted"


def test_nothing_is_submitted_where_no_queue_may_preempt_the_job(teams: Teams) -> None:
    teams.jobs.end(teams.job)
    teams.pass_time(1.0)
    own = teams.submit("red", "1")
    before = len(teams.ray.orders)
    with pytest.raises(RefusedError, match="bob/"):  # a GPU is free, so all would fit
        find_fault("preemption").inject(scene(teams, own))
    with pytest.raises(RefusedError, match="Finished"):
        find_fault("preemption").inject(scene(teams, teams.job))
    with pytest.raises(RefusedError, match="is in no queue"):
        find_fault("preemption").inject(scene(teams, "raysubmit_x"))
    assert len(teams.ray.orders) == before


def test_a_higher_priority_takes_the_quota_where_all_of_it_is_used(teams: Teams) -> None:
    teams.jobs.end(teams.job)
    teams.pass_time(1.0)
    own, _ = teams.submit("red", "1"), teams.submit("blue", "1")
    memo = dict[str, Any]()
    find_fault("preemption").inject(scene(teams, own, memo))
    assert memo["queue"] == "bob/red"
    assert teams.labctl.json("queue", "describe", memo["rival"])["priority_class"] == "high"
