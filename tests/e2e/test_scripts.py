"""Scripts that know nothing of labctl: it tells those that resume from those that start from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import PATIENCE, Bench
from tests.e2e.receipts import STATE, assert_recovered, assert_valid

VERDICT = 10
TIMEOUT = 7


def lose_its_node(bench: Bench, script: str, may_end: Path, *, code: int, epoch: str = "") -> Any:
    """The receipt of a script that comes to its end once its node was killed, however long that takes."""
    job = bench.submit(script, str(may_end))
    more = ("--after-epoch", epoch) if epoch else ()
    fault = bench.start("fault-inject", bench.where(job), "--job", job, *more, "--json")
    fault.says("fault", "kill")
    may_end.touch()
    ended = fault.end(2 * PATIENCE)
    assert ended.code == code, ended
    return ended.document


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("never_asks.py", "the script never called ray.train.get_checkpoint()"),
        pytest.param(
            "asks_but_ignores.py",
            "the script opened the checkpoint, but began with epoch 1 anyway",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_script_that_starts_from_scratch_is_exposed_although_its_job_succeeds(
    bench: Bench, tmp_path: Path, script: str, reason: str
) -> None:
    receipt = lose_its_node(bench, script, tmp_path / "may-end", code=VERDICT, epoch="3")
    assert_valid(receipt)
    assert receipt["verdict"] == "restarted-from-scratch", receipt
    assert reason in receipt["reason"]
    assert receipt["job"]["status"] == "SUCCEEDED"
    assert receipt["attempts"][-1]["first_epoch"] == 1
    assert receipt["lost_epochs"] >= 3
    failed = [check["name"] for check in receipt["checks"] if not check["passed"]]
    assert "resumed, not restarted" in failed
    assert "little lost" in failed


@pytest.mark.parametrize(
    ("script", "key", "last", "skipped"),
    [
        pytest.param("resumes.py", "epoch", 18, (), marks=pytest.mark.long),
        ("step_based.py", "step", 450, (STATE,)),
    ],
)
def test_a_script_that_resumes_is_recognised_without_knowing_labctl(
    bench: Bench, tmp_path: Path, script: str, key: str, last: int, skipped: tuple[str, ...]
) -> None:
    receipt = lose_its_node(bench, script, tmp_path / "may-end", code=0)
    assert_recovered(receipt, *skipped)
    assert receipt["epoch_key"] == key
    assert receipt["attempts"][-1]["last_epoch"] == last
    assert receipt["attempts"][-1]["first_epoch"] > receipt["attempts"][0]["first_epoch"]
    job = receipt["job"]["submission_id"]
    listed = bench.labctl("jobs", "checkpoints", job, "--json").document["checkpoints"]
    assert receipt["checkpoint"]["uri"] in [checkpoint["uri"] for checkpoint in listed]


def test_a_script_that_saves_when_it_is_told_of_a_preemption_loses_little_and_no_failure_is_counted(
    bench: Bench,
) -> None:
    job = bench.submit("saves_on_notice.py", "1")
    argv = f"fault-inject --fault drain -p notice=12 --job {job} --after-epoch 3 --json".split()
    receipt = bench.labctl(*argv, code=0, timeout=2 * PATIENCE).document
    assert_recovered(receipt)
    # Told, it saves each epoch. The end comes at any time: the newest save may not have been committed.
    assert receipt["lost_epochs"] <= 1, receipt
    assert receipt["checkpoint"]["epoch"] > 3, "it went on from the one that is saved anyway"
    detail = next(check["detail"] for check in receipt["checks"] if check["name"] == "a real fault")
    assert "Ray Train told the script of it after" in detail
    assert receipt["fault"]["done_at"] - receipt["fault"]["at"] >= 12
    log = bench.lab.jobs.logs(job)
    assert "[FailurePolicy] RETRY" in log
    assert "Source: preemption" in log
    assert bench.healthy()


@pytest.mark.long
def test_a_ledger_that_cannot_be_written_breaks_no_script_and_proves_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    warnings = {
        "s3://no-such-bucket/ledger": "the ledger cannot be written",
        "gopher://nowhere/ledger": "no ledger will be written",
    }
    may_end = tmp_path / "may-end"
    jobs = {
        bench.submit("resumes.py", str(may_end), runtime_env={"env_vars": {"RAYLAB_LEDGER": ledger}}): warning
        for ledger, warning in warnings.items()
    }
    before = bench.leaders()
    argv = ("fault-inject", "ray-worker-0", "--job", next(iter(jobs)), "--after", "1s", "--timeout", "2s")
    refused = bench.labctl(*argv, "--json", code=TIMEOUT)
    assert "no checkpoint" in refused.document["error"]["message"]
    may_end.touch()
    for job, warning in jobs.items():
        bench.succeeds(job)
        assert warning in bench.lab.jobs.logs(job)
        assert bench.lab.history(job).runs == ()
    assert bench.leaders() == before, "a fault was injected without evidence that the job runs there"


def test_two_ranks_that_ask_for_gpus_train_on_gloo_and_cpu_where_gpus_are_simulated(bench: Bench) -> None:
    job = bench.submit("wants_gpus.py")
    bench.succeeds(job)
    run = bench.lab.history(job).runs[-1]
    assert run.plan is not None
    assert run.plan.resources_per_worker["GPU"] == 1
    assert len(set(run.attempts[0].nodes.values())) == 2
    assert run.last is not None
    metrics = run.last.metrics
    assert (metrics["epoch"], metrics["ranks"], metrics["backend"], metrics["device"]) == (
        2,
        2,
        "gloo",
        "cpu",
    )
