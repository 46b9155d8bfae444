"""Faults of what only containers have of their own; and the loss of the head, with its state in Redis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from lab.services import HEAD
from tests.e2e.chaos import ChaosTests
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench
from tests.e2e.harness import PATIENCE, UP
from tests.e2e.receipts import assert_valid
from tests.waiting import eventually

KILL_STORE = """
import os, pathlib
for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
    if comm.read_text().strip() == "gcs_server":
        os.kill(int(comm.parent.name), 9)
"""


class TestChaos(ChaosTests):
    FEW: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "partition": {"for": 8},
        "oom": {},
    }
    OTHERS: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "slow-network": {"for": 6, "rate": 10, "loss": 1},
        "disk-full": {},
        "pause": {"for": 8},
        "crash-restart": {},
        "drain": {"notice": 5},
        "s3-down": {"for": 5},
        "checkpoint-corrupt": {},
    }


class TestHead:
    @pytest.fixture(scope="class")
    @classmethod
    def lasting(cls, make_container_bench: Callable[[], ContainerBench]) -> ContainerBench:
        """A lab whose head keeps its state in Redis."""
        bench = make_container_bench()
        bench.labctl(*UP, "--gcs-ft", timeout=UP_SECONDS)
        return bench

    def test_a_control_store_that_was_killed_is_started_again_and_the_job_trains_on(
        self, lasting: ContainerBench
    ) -> None:
        job = lasting.digits(epochs=1000, workers=2)

        def reports() -> int:
            attempts = [attempt for run in lasting.lab.history(job).runs for attempt in run.attempts]
            assert [attempt.number for attempt in attempts] in ([], [1])
            return sum(len(attempt.reports) for attempt in attempts)

        eventually(lambda: reports() >= 2, PATIENCE, "it trains")
        containers = {
            name: container["State"]["StartedAt"] for name, container in lasting.containers().items()
        }
        lasting.exec(HEAD, "python", "-c", KILL_STORE)

        before = reports()
        eventually(lambda: reports() >= before + 5, PATIENCE, "it trains on")
        eventually(lasting.healthy, PATIENCE, "the lab is whole")
        assert lasting.lab.jobs.get(job).status == "RUNNING"
        assert [node.reason for node in lasting.lab.api.nodes() if not node.alive] == []
        now = {name: container["State"]["StartedAt"] for name, container in lasting.containers().items()}
        assert now == containers
        lasting.lab.jobs.stop(job)

    @pytest.mark.long
    def test_a_job_that_died_with_its_head_is_submitted_again_and_resumes(
        self, lasting: ContainerBench
    ) -> None:
        job = lasting.digits(epochs=14, batch_size=4)
        receipt = self.lose_the_head(lasting, job)
        assert receipt["verdict"] == "recovered", receipt
        again = receipt["job"]["resubmitted_as"]
        assert again not in (None, job)
        assert receipt["job"]["status"] == "SUCCEEDED"
        assert receipt["attempts"][-1]["first_epoch"] > 3
        assert receipt["attempts"][-1]["last_epoch"] == 14

    @staticmethod
    def lose_the_head(bench: ContainerBench, job: str) -> Any:
        """The receipt of a head that was killed while the job trained; the lab is whole again."""
        bench.where(job)
        ended = bench.labctl(
            "fault-inject", HEAD, "--fault", "head-kill", "--job", job, "--after-epoch", "3", "--json",
            timeout=600, code=None,
        )  # fmt: skip
        assert_valid(ended.document)
        assert bench.healthy()
        return ended.document
