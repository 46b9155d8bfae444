"""The demo on a machine where no lab is up: one command, and a receipt that proves the recovery."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.harness import Bench
from tests.e2e.receipts import assert_recovered


def test_one_command_boots_breaks_and_proves_the_recovery_and_leaves_nothing(
    make_bench: Callable[[], Bench],
) -> None:
    bench = make_bench()
    demo = bench.start("demo", "--gpu", "simulated", "--epochs", "8", "--down", "--json")
    demo.says("jupyter", "starting")
    ports = bench.state().ports
    ended = demo.end(timeout=480)

    assert ended.code == 0, ended
    document, receipt = ended.documents
    assert_recovered(receipt)
    assert receipt["fault"]["kind"] == "kill"
    assert receipt["checkpoint"]["saved_sha256"] == receipt["checkpoint"]["loaded_sha256"]
    assert len(receipt["attempts"]) == 2
    assert receipt["attempts"][-1]["last_epoch"] == 8
    assert document["demo"]["comparison"]["weights"] == "equal", document
    assert set(document["demo"]["seconds"]) == {"up", "train and recover", "control run"}
    bench.nothing_left(ports)
