"""Faults on a job that trains: each one recovered from, with the very weights of an undisturbed run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import ROOT, Bench
from tests.e2e.receipts import assert_recovered, assert_valid

EPOCHS = 7
LONG_EPOCHS = 30
"""A training longer than labctl takes to ask a slow kubectl half a dozen questions before the fault."""


@pytest.fixture(scope="module")
def undisturbed(shared: Bench) -> Callable[[int], Any]:
    """The final checkpoint of an undisturbed run, by its number of ranks; trained once for each."""
    done: dict[int, Any] = {}

    def train(workers: int) -> Any:
        if workers not in done:
            job = shared.digits(epochs=EPOCHS, workers=workers)
            shared.succeeds(job)
            assert len(shared.lab.history(job).runs[-1].attempts) == 1, "the control run was disturbed"
            done[workers] = shared.final_checkpoint(job)
        return done[workers]

    return train


@pytest.mark.rare  # both kinds are among the shorter tests, and the demo compares weights
@pytest.mark.parametrize(("kind", "workers"), [("kill", 2), ("pause", 1)])
def test_a_run_recovers_and_ends_with_the_weights_of_an_undisturbed_one(
    bench: Bench, undisturbed: Callable[[int], Any], kind: str, workers: int
) -> None:
    before = bench.leaders()
    job = bench.digits(epochs=EPOCHS, workers=workers)
    target = bench.where(job)
    ended = bench.labctl(
        "fault-inject", target, "--fault", kind, "--job", job, "--after-epoch", "3", "--json", timeout=400
    )

    receipt = ended.document
    assert_recovered(receipt)
    assert receipt["fault"]["kind"] == kind
    assert receipt["fault"]["target"] == target
    assert receipt["job"]["submission_id"] == job
    assert len(receipt["attempts"][0]["nodes"]) == workers
    assert target in receipt["attempts"][0]["nodes"]
    after = bench.leaders()
    assert after[target] != before[target], "the node was not started again"
    assert {**after, target: None} == {**before, target: None}, "other services were touched"
    assert bench.healthy()

    saved, control = bench.final_checkpoint(job), undisturbed(workers)
    assert saved["epoch"] == control["epoch"] == EPOCHS - 1
    assert saved["global_step"] == control["global_step"]
    assert len(saved["state_dict"]) >= 8
    assert len(saved["optimizer_states"][0]["state"]) == len(saved["state_dict"])
    assert differences(saved["state_dict"], control["state_dict"]) == []
    assert differences(saved["optimizer_states"], control["optimizer_states"]) == []


@pytest.mark.long
def test_a_cluster_is_broken_through_kubectl_and_judged_by_its_ledger_alone(
    bench: Bench, tmp_path: Path
) -> None:
    """The nodes of the lab are the pods; labctl knows kubectl and the store, and nothing of the lab."""
    job = bench.digits(epochs=LONG_EPOCHS, workers=1)
    target = bench.where(job)
    (tmp_path / "pods.json").write_text(json.dumps(["ray-head", "ray-worker-0", "ray-worker-1"]))
    kubectl = tmp_path / "kubectl"
    script = ROOT / "tests" / "e2e" / "scripts" / "kubectl.py"
    kubectl.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{script}" "$@"\n')
    kubectl.chmod(0o755)
    given = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "FAKE_CLUSTER": str(tmp_path),
        "FAKE_CLUSTER_HOME": str(bench.folder.parent),
        "FAKE_CLUSTER_LAB": bench.name,
    }

    def labctl(*words: str) -> Any:
        return bench.from_outside(tmp_path, given, *words).document

    cluster = ("--runtime", "kubernetes", "--context", "school")
    receipt = labctl("fault-inject", target, *cluster, "--job", job, "--after-epoch", "2")
    assert_recovered(receipt)
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    (deleted,) = [call[3:] for call in calls if call[3] == "delete"]
    assert deleted == ["delete", "pod", target, "--grace-period=0", "--force", "--wait=false"]

    again = labctl("receipt", job)
    assert_valid(again)
    assert again["verdict"] == "recovered"
    assert [check["name"] for check in again["checks"] if check["skipped"]] == ["lab whole again"]
    assert again["attempts"] == receipt["attempts"]
    bench.labctl("restart", target, timeout=200)


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two nested values differ; tensors are equal only if every element is."""
    import torch

    if type(a) is not type(b):
        return [f"{where}: {type(a).__name__} and {type(b).__name__}"]
    if isinstance(a, torch.Tensor):
        return [] if a.dtype == b.dtype and torch.equal(a, b) else [f"{where}: tensors differ"]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{where}: keys {list(a)} and {list(b)}"]
        return [line for key in a for line in differences(a[key], b[key], f"{where}.{key}")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{where}: {len(a)} and {len(b)} entries"]
        return [line for i in range(len(a)) for line in differences(a[i], b[i], f"{where}[{i}]")]
    return [] if a == b else [f"{where}: {a!r} and {b!r}"]


def test_tensors_that_differ_in_one_bit_count_as_different() -> None:
    import torch

    one = torch.ones(3)
    other = one.clone()
    other[1] = torch.nextafter(other[1], torch.tensor(2.0))
    assert differences({"w": one}, {"w": one.clone()}) == []
    assert differences({"w": [one]}, {"w": [other]}) == [".w[0]: tensors differ"]
    assert differences({"w": one}, {"v": one}) != []
    assert differences(1, 2) == [": 1 and 2"]
