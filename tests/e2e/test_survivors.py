"""Training that does not stop: a rank dies, its node dies, the others go on, and the receipts prove it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.host import environment
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.e2e.receipts import assert_valid

EPOCHS = 100

SURVIVED = ("survivors went on", "rejoined", "nothing repeated", "equal ranks")

GAP_SECONDS = 10.0
"""Longest gap that passes: twenty times what is usual, for a machine that does much else."""


@pytest.mark.long
@pytest.mark.skipif(
    bool(environment.unavailable("torchft")), reason="torchft has no packages for this machine"
)
@pytest.mark.parametrize("kind", ["rank-kill", pytest.param("kill", marks=pytest.mark.rare)])
def test_the_others_go_on_when_a_rank_or_its_node_dies(bench: Bench, kind: str) -> None:
    job = bench.labctl(
        *("submit", "digits", "--fault-tolerance", "torchft"),
        *("-p", "workers=2", "-p", f"epochs={EPOCHS}", "--detach"),
    ).out.strip()
    ended = bench.labctl("fault-inject", "--fault", kind, "--job", job, "--json", timeout=4 * PATIENCE)

    receipt = ended.document
    assert_valid(receipt)
    assert receipt["verdict"] == "as-expected", receipt
    assert receipt["expected"]["outcome"] == "survived"
    assert {check["name"] for check in receipt["checks"] if check["passed"]} >= set(SURVIVED)
    assert receipt["lost_epochs"] == 0
    assert len(receipt["attempts"]) == 1, "the training was started again"
    survivors = receipt["survivors"]
    assert survivors["longest_gap"] < GAP_SECONDS
    assert [rank["steps_alone"] > 0 for rank in survivors["ranks"]] == [True]
    assert [rank["source"] for rank in survivors["rejoined"]] == ["rank1"]
    assert bench.healthy()


@pytest.mark.long
@pytest.mark.skipif(
    bool(environment.unavailable("torchft")), reason="torchft has no packages for this machine"
)
def test_a_language_model_goes_on_right_after_up_when_a_rank_dies(make_bench: Callable[[], Bench]) -> None:
    bench = make_bench()
    bench.labctl(*UP)
    settings = ("size=0.1m", "megabytes=1", "steps=400")
    pairs = [word for setting in settings for word in ("-p", setting)]
    job = bench.labctl("submit", "llm", "--fault-tolerance", "torchft", *pairs, "--detach").out.strip()
    fault = ("fault-inject", "--fault", "rank-kill", "--job", job, "--after-step", "30", "--json")
    receipt = bench.labctl(*fault, timeout=4 * PATIENCE).document
    assert_valid(receipt)
    assert receipt["verdict"] == "as-expected", receipt
    assert {check["name"] for check in receipt["checks"] if check["passed"]} >= set(SURVIVED)
    assert len(receipt["attempts"]) == 1, "the training was started again"
    assert receipt["survivors"]["longest_gap"] < GAP_SECONDS
