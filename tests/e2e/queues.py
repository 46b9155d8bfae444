"""Two teams on one lab: borrow a GPU, have it reclaimed, resume, and prove it."""

from __future__ import annotations

from typing import Any

from lab.services import QUEUE
from tests.e2e.harness import PATIENCE, SCRIPTS, Shell
from tests.e2e.receipts import assert_recovered
from tests.waiting import eventually

EPOCHS = 40
"""Enough that the job still trains when the controller is back, on a fast machine too."""

MAY_END = "e2e/red-may-end"
HOLDS = f"""
import time
from pyarrow import fs
store, path = fs.FileSystem.from_uri("s3://ray/{MAY_END}")
while not store.get_file_info(path).is_file:
    time.sleep(0.5)
"""
"""A job that goes on until the store has an object of that name."""


class QueueTests:
    """What queues must do on a real lab; subclasses give `shell`: a lab with two simulated GPUs."""

    def test_a_borrowed_gpu_is_reclaimed_and_the_job_resumes_from_its_checkpoint(self, shell: Shell) -> None:
        shell.labctl("queue", "apply", "--example", "two-teams")
        job = submitted(shell, "digits", "-p", "workers=2", "-p", f"epochs={EPOCHS}", "--queue", "alice/blue")
        eventually(lambda: saved(shell, job) >= 2, 2 * PATIENCE, "two checkpoints of the borrower")
        blue = next(q for q in queues(shell)["cluster_queues"] if q["name"] == "blue")
        assert {f["resource"]: f["borrowed"] for f in blue["flavors"]} == {"cpu": 0, "nvidia.com/gpu": 1}

        red = submitted(shell, "--num-gpus", "1", "--queue", "bob/red", "--", "python", "-c", HOLDS)
        shell.lab.runtime.kill(QUEUE)  # in the middle of the preemption
        shell.labctl("restart", QUEUE)
        eventually(lambda: described(shell, red)["status"] == "Admitted", PATIENCE, "red's own GPU")
        why = shell.labctl("queue", "why", job, "--json").document
        assert why["reason"] == "WaitingForQuota"
        assert f"bob/{red}" in [holder["workload"] for holder in why["holders"]]
        shell.lab.store.put(MAY_END, b"")
        eventually(lambda: described(shell, red)["status"] == "Finished", PATIENCE, "the end of red's job")
        eventually(lambda: described(shell, job)["status"] == "Finished", 3 * PATIENCE, "the borrower's end")

        document = shell.labctl("queue", "receipt", job, "--control", "--json", timeout=4 * PATIENCE).document
        (receipt,) = document["receipts"]
        assert_recovered(receipt)
        assert receipt["preemption"]["by"] == f"bob/{red}"
        assert receipt["preemption"]["reason"] == "InCohortReclamation"
        assert receipt["job"]["resubmitted_as"] == f"{job}-2"
        assert receipt["control"]["weights"] == "equal"
        made = described(shell, job)["attempts_made"]
        assert [attempt["ended"] for attempt in made] == ["STOPPED", "SUCCEEDED"], "submitted once too often"


def submitted(shell: Shell, *arguments: str) -> str:
    """Submit a job, detached; returns its name."""
    return shell.labctl("submit", "--detach", *arguments, cwd=SCRIPTS).out.strip()


def described(shell: Shell, job: str) -> Any:
    return shell.labctl("queue", "describe", job, "--json").document


def queues(shell: Shell) -> Any:
    return shell.labctl("queue", "--json").document


def saved(shell: Shell, job: str) -> int:
    """Checkpoints that are committed so far."""
    return sum(len(run.checkpoints) for run in shell.lab.history(job).runs)
