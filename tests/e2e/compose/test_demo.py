"""The demo on containers: one command, and a receipt that proves the recovery."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.receipts import assert_recovered


def test_one_command_boots_breaks_and_proves_the_recovery_and_leaves_nothing(
    make_container_bench: Callable[[], ContainerBench],
) -> None:
    bench = make_container_bench()
    ended = bench.labctl("demo", "--gpu", "simulated", "--epochs", "8", "--down", "--json", timeout=600)
    document, receipt = ended.documents
    assert_recovered(receipt)
    assert receipt["fault"]["kind"] == "kill"
    assert receipt["checkpoint"]["saved_sha256"] == receipt["checkpoint"]["loaded_sha256"]
    assert receipt["attempts"][-1]["last_epoch"] == 8
    assert document["demo"]["comparison"]["weights"] == "equal", document
    assert bench.leftovers() == []
    assert bench.volumes() != [], "down took the checkpoints with it"


@pytest.mark.long
def test_a_lab_that_was_taken_down_boots_again_with_its_checkpoints_and_a_second_down_leaves_nothing(
    make_container_bench: Callable[[], ContainerBench],
) -> None:
    bench = make_container_bench()
    up = ("up", "--gpu", "simulated", "--cpus-per-worker", "2", "--json")
    first = bench.labctl(*up, timeout=300).document
    assert first["healthy"], first
    job = bench.digits(epochs=2)
    bench.succeeds(job)
    saved = [checkpoint.uri for checkpoint in bench.lab.checkpoints(job)]
    assert saved
    before = {name: container["Id"] for name, container in bench.containers().items()}
    bench.labctl("down")
    assert bench.leftovers() == []

    second = bench.labctl(*up, timeout=300).document
    assert second["healthy"], second
    after = {name: container["Id"] for name, container in bench.containers().items()}
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert bench.final_checkpoint(job)["epoch"] == 1
    bench.labctl("down", "--volumes", "--yes")
    assert bench.leftovers() == []
    assert bench.volumes() == []
