"""Recoveries of a cluster that labctl does not run: followed, and judged, by the ledger alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.api.receipt import ReceiptDocument
from lab.errors import NotFoundError, RefusedError, UsageError
from lab.evidence.receipt import Verdict
from lab.evidence.receipt.model import Source
from lab.ext.kubernetes.control import KubernetesControl
from lab.ext.kubernetes.kubectl import Kubectl
from lab.faults.records import FAULTS_PREFIX
from lab.flows.recovery import FaultRequest, Moment, inject
from lab.flows.recovery.outside import judge_from_ledger, ledger_store, open_outside
from lab.topology import RECEIPTS_PREFIX, REGION
from tests.ext.kubernetes.fake_cluster import FakeCluster
from tests.unit.flows.world import JOB, W0, W1, Drill, Training

KEY = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


def judged(world: Drill) -> ReceiptDocument:
    return judge_from_ledger(world.store, "s3://ray", JOB, clock=world.clock)


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize("kind", ["kill", "stop", "pause"])
def test_the_ledger_alone_gives_the_labs_own_verdict(world: Drill, kind: str, resumes: bool) -> None:
    Training(world, resumes=resumes)
    own = world.inject(W0, kind, after_epoch=3).receipt
    receipt = judged(world)
    assert own is not None
    assert receipt.verdict is own.verdict
    assert receipt.verdict is (Verdict.RECOVERED if resumes else Verdict.RESTARTED)
    mine = {check.name: check.passed for check in receipt.checks if not check.skipped}
    assert mine == {check.name: check.passed for check in own.checks if check.name in mine}
    assert [check.name for check in receipt.checks if check.skipped] == ["lab whole again"]
    assert receipt.reason == f"{own.reason}; not asked: lab whole again"
    assert (receipt.attempts, receipt.checkpoint, receipt.lost_epochs) == (
        own.attempts,
        own.checkpoint,
        own.lost_epochs,
    )
    assert set(receipt.not_asked) == set(Source)


def test_nothing_is_written(world: Drill) -> None:
    Training(world)
    world.inject(after_epoch=3)
    before = dict(world.store.buckets["ray"])
    judged(world)
    assert world.store.buckets["ray"] == before


def test_checkpoints_lie_in_the_bucket_that_they_name(world: Drill) -> None:
    Training(world)
    world.inject(after_epoch=3)
    buckets = world.store.buckets
    ledgers = {key for key in buckets["ray"] if key.startswith(".raylab/")}
    buckets["course-7"] = {key: buckets["ray"].pop(key) for key in ledgers}
    receipt = judge_from_ledger(world.store.in_bucket("course-7"), "s3://course-7", JOB, clock=world.clock)
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert receipt.problems == ()


def test_a_checkpoint_whose_bucket_is_gone_is_not_verified(world: Drill) -> None:
    Training(world)
    world.inject(after_epoch=3)
    world.store.buckets["course-7"] = {
        key: given for key, given in world.store.buckets.pop("ray").items() if key.startswith(".raylab/")
    }
    receipt = judge_from_ledger(world.store.in_bucket("course-7"), "s3://course-7", JOB, clock=world.clock)
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert any("has no bucket 'ray'" in problem for problem in receipt.problems)


def test_a_job_that_goes_on_is_not_verified_yet(world: Drill) -> None:
    Training(world, epochs=500)
    world.inject(after_epoch=3, wait=False)
    receipt = judged(world)
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "the job is RUNNING" in receipt.reason


def test_a_failure_on_no_record_is_judged_as_one(world: Drill) -> None:
    Training(world)
    world.inject(after_epoch=3)
    world.store.delete([entry.key for entry in world.store.list(f"{FAULTS_PREFIX}/")])
    receipt = judged(world)
    assert (receipt.fault.kind, receipt.fault.target) == ("failure", W0)
    open_ = [check.name for check in receipt.checks if not (check.passed or check.skipped)]
    assert (open_, receipt.verdict) == (["new processes"], Verdict.NOT_VERIFIED), "this ledger has no pids"


def test_a_job_that_met_no_fault_is_refused(world: Drill) -> None:
    Training(world)
    world.clock.sleep(30)
    with pytest.raises(RefusedError, match=r"neither a fault .*nor"):
        judged(world)


def test_a_job_without_a_ledger_names_those_that_have_one(world: Drill) -> None:
    Training(world)
    world.clock.sleep(3)
    with pytest.raises(NotFoundError) as caught:
        judge_from_ledger(world.store, "s3://ray", "other", clock=world.clock)
    assert JOB in caught.value.hint


def test_a_pod_is_deleted_and_its_job_followed_by_the_ledger(
    world: Drill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    Training(world)
    world.clock.sleep(3)
    cluster = FakeCluster(W0, W1, on_delete=world.runtime.kill)
    runtime = KubernetesControl(Kubectl("school", run=cluster.run), clock=world.clock, wall=world.clock)
    moments: list[Moment] = []

    outcome = inject(
        open_outside(runtime, world.store), FaultRequest(W0, after_epoch=3), moments.append, clock=world.clock
    )

    receipt = outcome.receipt
    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert all(check.passed for check in receipt.checks)
    assert set(receipt.not_asked) == {Source.JOBS, Source.NODES}
    assert receipt.timeline.node_dead is None
    assert [a.nodes for a in receipt.attempts] == [(W0,), (W1,)]
    assert {"fault", "failure_detected", "first_report", "reverted"} <= {moment.key for moment in moments}
    assert world.store.list(f"{RECEIPTS_PREFIX}/{JOB}")
    assert judged(world).verdict is Verdict.RECOVERED
    assert not list(tmp_path.rglob("*.json"))


def test_a_pod_that_trains_nothing_is_refused_and_left_alone(
    world: Drill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    Training(world)
    world.clock.sleep(3)
    cluster = FakeCluster(W0, W1)
    lab = open_outside(
        KubernetesControl(Kubectl("school", run=cluster.run), clock=world.clock, wall=world.clock),
        world.store,
    )
    for pod, words in ((W1, "runs no part of job"), ("head-1", "head-1 runs no rank of a job")):
        with pytest.raises(RefusedError, match=words):
            inject(lab, FaultRequest(pod, job=JOB), lambda _: None, clock=world.clock)
    assert {W0, W1} < set(cluster.pods)


@pytest.mark.parametrize(
    ("ledger", "prefix"),
    [
        ("s3://ray", ""),
        ("s3://ray/", ""),
        ("s3://ray/.raylab/ledger", ""),
        ("s3://bucket/team/a", "team/a/"),
        ("s3://bucket/team/a/.raylab/ledger/", "team/a/"),
    ],
)
def test_a_ledger_is_named_by_its_storage_or_by_itself(ledger: str, prefix: str) -> None:
    store = ledger_store(ledger, "http://127.0.0.1:9000", REGION, KEY)
    assert getattr(store, "_prefix") == prefix  # noqa: B009
    assert store.bucket == ledger.split("/")[2]


@pytest.mark.parametrize(
    ("ledger", "endpoint", "environ", "words"),
    [
        ("ray", "", KEY, "not a bucket"),
        ("s3://", "", KEY, "not a bucket"),
        ("s3://ray?x=1", "", KEY, "not a bucket"),
        ("s3://ray", "minio:9000", KEY, "not an address"),
        ("s3://ray", "", {}, "no key of the object store"),
        ("s3://ray", "", {"AWS_ACCESS_KEY_ID": "k"}, "no key of the object store"),
    ],
)
def test_a_place_that_makes_no_sense_is_refused(
    ledger: str, endpoint: str, environ: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        ledger_store(ledger, endpoint, "", environ, tmp_path)


def test_the_key_may_be_in_the_file_of_the_aws_tools(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
        "[school]\naws_access_key_id = c\naws_secret_access_key = d\n"
    )
    store = ledger_store("s3://ray", "", "eu-west-1", {"AWS_PROFILE": "school"}, tmp_path)
    inner = getattr(store, "_store")  # noqa: B009
    assert (inner.endpoint_url, inner._credentials.access_key) == ("https://s3.eu-west-1.amazonaws.com", "c")
