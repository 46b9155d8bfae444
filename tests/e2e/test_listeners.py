"""Who can reach a training: while it runs nothing of a lab of processes listens beyond loopback."""

from __future__ import annotations

import contextlib

import psutil
import pytest

from lab.host import environment
from lab.host.listening import Listening, listening
from tests.e2e.harness import PATIENCE, Bench
from tests.waiting import eventually

XGBOOST = """
import numpy, ray.train, time, xgboost
from ray.train import RunConfig, ScalingConfig
from ray.train.xgboost import XGBoostTrainer
class Slowly(xgboost.callback.TrainingCallback):  # as long as it takes to see each socket twice
    def after_iteration(self, *ignored):
        time.sleep(1)
def train():
    data = xgboost.DMatrix(numpy.random.rand(2000, 5), label=numpy.arange(2000) % 2)
    xgboost.train({"objective": "binary:logistic"}, data, num_boost_round=5, callbacks=[Slowly()])
    ray.train.report({"epoch": 1})
run = RunConfig(storage_path="s3://ray")
XGBoostTrainer(train, scaling_config=ScalingConfig(num_workers=2), run_config=run).fit()
"""


def while_it_runs(bench: Bench, job: str) -> set[Listening]:
    """Everything on which processes of the lab were seen to listen until the job had ended."""
    seen: set[Listening] = set()
    ranks: set[Listening] = set()

    def look() -> bool:
        own = bench.processes()
        for listener in listening():
            if listener.pid in own:
                seen.add(listener)
                with contextlib.suppress(psutil.Error):
                    ranks.update({listener} if "RayTrainWorker" in own[listener.pid].cmdline()[0] else ())
        return bench.lab.jobs.get(job).final

    eventually(look, PATIENCE, f"{job} has ended")
    bench.succeeds(job)
    assert ranks, "no rank was seen to listen"
    return seen


def beyond_loopback(seen: set[Listening]) -> set[Listening]:
    """Those that the network reached, and not only until they were bound to the loopback device."""
    bound = {listener.port for listener in seen if "%" in listener.address}
    return {listener for listener in seen if not listener.on_loopback and listener.port not in bound}


@pytest.mark.parametrize("ranks", [1, 2])
def test_torchs_store_is_on_loopback(bench: Bench, ranks: int) -> None:
    assert beyond_loopback(while_it_runs(bench, bench.digits(epochs=6, workers=ranks))) == set()


@pytest.mark.long
@pytest.mark.skipif(
    bool(environment.unavailable("torchft")), reason="torchft has no packages for this machine"
)
def test_torchfts_servers_are_on_loopback(bench: Bench) -> None:
    submit = ("submit", "digits", "--fault-tolerance", "torchft", "-p", "epochs=20", "--detach")
    assert beyond_loopback(while_it_runs(bench, bench.labctl(*submit).out.strip())) == set()


@pytest.mark.long
def test_xgboosts_ranks_are_bound_to_the_loopback_device(bench: Bench) -> None:
    seen = while_it_runs(bench, bench.submit("-c", XGBOOST))
    assert any(listener.address == "0.0.0.0%lo" for listener in seen)
    assert beyond_loopback(seen) == set()
