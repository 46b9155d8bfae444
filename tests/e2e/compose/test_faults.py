"""Faults on containers that train: each one recovered from, and looked at from outside."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.receipts import assert_recovered

EPOCHS = 6


@pytest.mark.long  # the demo on containers survives a kill
@pytest.mark.parametrize(("kind", "workers"), [("kill", 2), pytest.param("stop", 1, marks=pytest.mark.rare)])
def test_a_run_recovers(box: ContainerBench, kind: str, workers: int) -> None:
    before = {name: container["Id"] for name, container in box.containers().items()}
    job = box.digits(epochs=EPOCHS, workers=workers)
    target = box.where(job)
    started = box.containers()[target]["State"]["StartedAt"]
    ended = box.labctl(
        "fault-inject", target, "--fault", kind, "--job", job, "--after-epoch", "2", "--json", timeout=400
    )

    receipt = ended.document
    assert_recovered(receipt)
    assert receipt["fault"]["kind"] == kind
    assert receipt["fault"]["target"] == target
    assert len(receipt["attempts"][0]["nodes"]) == workers
    assert target in receipt["attempts"][0]["nodes"]
    assert receipt["attempts"][-1]["last_epoch"] == EPOCHS
    after = box.containers()
    assert {name: container["Id"] for name, container in after.items()} == before, "containers were replaced"
    assert after[target]["State"]["StartedAt"] != started, "the container was not started again"
    assert not after[target]["State"]["Paused"]
    assert box.healthy()
    assert box.final_checkpoint(job)["epoch"] == EPOCHS - 1
