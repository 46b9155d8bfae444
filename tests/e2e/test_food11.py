"""Training and searching on Food-11 in a lab of plain processes."""

from __future__ import annotations

import pytest

from tests.e2e.food11 import SearchTests, pictures
from tests.e2e.harness import PATIENCE, Bench
from tests.e2e.receipts import assert_recovered

SETTINGS = ("-p", "epochs=8", "-p", "cpus=1")


def start(bench: Bench) -> str:
    argv = ("submit", "food11", "--detach", "--json", *SETTINGS)
    return str(bench.labctl(*argv).document["submission_id"])


def weights(bench: Bench, job: str) -> tuple[object, object]:
    last = bench.lab.history(job).runs[-1].last
    assert last is not None
    return last.metrics["epoch"], last.metrics["weights_sha256"]


def test_a_training_that_lost_its_node_ends_with_the_weights_of_one_that_did_not(bench: Bench) -> None:
    pictures(bench)
    undisturbed = start(bench)
    bench.succeeds(undisturbed)

    job = start(bench)
    fault = ("fault-inject", bench.where(job), "--job", job, "--after-epoch", "2", "--json")
    receipt = bench.labctl(*fault, timeout=2 * PATIENCE).document
    assert_recovered(receipt)
    assert receipt["attempts"][-1]["last_epoch"] == 8
    assert weights(bench, job) == weights(bench, undisturbed)


class TestSearch(SearchTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
