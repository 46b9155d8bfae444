"""Faults of every kind on a lab of plain processes; elastic training, the head, and a labctl that dies."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from lab.errors import UnsupportedError
from lab.services import HEAD
from lab.topology import State
from tests.e2e.chaos import ChaosTests
from tests.e2e.harness import Bench
from tests.e2e.receipts import assert_valid
from tests.waiting import eventually

ELSEWHERE = ("partition", "slow-network", "oom", "disk-full")
"""Faults of what nodes do not have of their own here."""


@pytest.mark.rare
class TestChaos(ChaosTests):
    FEW: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "stop": {},
        "rank-kill": {},
        "s3-down": {"for": 5},
        "checkpoint-corrupt": {},
    }
    OTHERS: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "crash-restart": {},
        "drain": {"notice": 5},
        "exception-at-epoch": {},
        "nan-at-epoch": {},
        "s3-slow": {"for": 6},
        "s3-credentials-revoked": {"for": 5},
        "checkpoint-truncate": {},
        "checkpoint-delete": {},
        "rank-hang": {},
    }


@pytest.mark.parametrize("fault", ELSEWHERE)
def test_a_fault_that_cannot_be_here_is_refused_with_the_reason(bench: Bench, fault: str) -> None:
    ended = bench.labctl("fault-inject", "--fault", fault, code=UnsupportedError.exit_code)
    assert f"{fault} is not possible here: " in ended.err
    assert "--runtime compose" in ended.err


@pytest.mark.long
def test_an_elastic_run_goes_on_with_one_worker_and_grows_back(bench: Bench) -> None:
    job = bench.digits(epochs=28, workers=2, min_workers=1, batch_size=4)
    bench.where(job)
    ended = bench.labctl(
        "fault-inject", "ray-worker-1", "--job", job, "--after-epoch", "3", "--json", timeout=400, code=None
    )
    receipt: Any = ended.document
    assert_valid(receipt)
    assert receipt["verdict"] == "recovered", ended
    sizes = [entry["ranks"] for entry in receipt["world_size"]]
    assert sizes[0] == 2
    assert 1 in sizes
    assert sizes[-1] == 2, "the run did not grow back"
    assert bench.healthy()


@pytest.mark.long
def test_what_a_killed_labctl_left_frozen_is_healed(bench: Bench) -> None:
    job = bench.digits(epochs=400)
    target = bench.where(job)
    inject = bench.start("fault-inject", target, "--fault", "pause", "--for", "10m", "--job", job)
    inject.says("fault", f"pause {target}")
    inject.signal(signal.SIGKILL)
    inject.end()
    assert bench.state_of(target) is State.PAUSED
    assert f"labctl --lab {bench.name} heal" in bench.labctl("status").out

    healed = bench.labctl("heal", "--json").document["healed"]

    assert [(fault["kind"], fault["target"], fault["problem"]) for fault in healed] == [
        ("pause", target, None)
    ]
    eventually(bench.healthy, 60, "every service is healthy")
    assert bench.labctl("heal").out == "nothing to heal\n"
    bench.lab.jobs.stop(job)


def test_without_a_memory_outside_of_it_the_loss_of_the_head_fails_the_job_and_the_lab_comes_back(
    bench: Bench,
) -> None:
    job = bench.digits(epochs=400)
    bench.where(job)
    ended = bench.labctl(
        "fault-inject", HEAD, "--fault", "head-kill", "--job", job, "--json", code=None, timeout=400
    )
    receipt: Any = ended.document
    assert_valid(receipt)
    assert receipt["verdict"] == "as-expected", ended
    assert receipt["job"] == {"submission_id": job, "status": "FAILED", "resubmitted_as": None}
    assert bench.healthy()
    bench.succeeds(bench.digits(epochs=2))
