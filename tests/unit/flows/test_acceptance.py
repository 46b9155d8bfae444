"""The acceptance of a lab's GPUs: what is asked in turn, what follows from it, and what the report says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.api.health import CheckView, DeviceView, HealthView
from lab.api.receipt import Verdict
from lab.errors import RefusedError, StoreError
from lab.flows import acceptance
from lab.flows.acceptance import questions
from lab.lab import Lab
from lab.runtime import lent
from lab.runtime.lent import Loan
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.fakes import FakeRuntime
from tests.fakes.host import FakeClock
from tests.unit.fakes import FakeJobs, FakeLab, job

GPU = "GPU-5c0d"
PLAN = GpuPlan(Vendor.NVIDIA, tuple(GpuAssignment(f"ray-worker-{i}", f"{GPU}{i}", "H100") for i in range(2)))
NAMES = ["software", "pinning", "health", "sick and well", "PCIe bandwidth", "GPUs compute"]
SOFTWARE = "driver 580.65.06, PyTorch 2.10.0, built for CUDA 13.0"
COMPUTED = ["training", "all-reduce", "recovery"]


class FakeHealth:
    """Health of two GPUs; `says` is the last result of each check but those that pass, or `SKIP` and why."""

    def __init__(
        self,
        clock: FakeClock,
        names: Sequence[str] = ("ecc", "temperature"),
        seconds: float = 0.0,
        **says: str,
    ) -> None:
        self.names = names
        self.clock, self.seconds, self.says, self.sick = clock, seconds, says, False
        self.orders: list[str] = []

    def view(self, *checks: CheckView, skipped: Mapping[str, Mapping[str, str]] | None = None) -> HealthView:
        state = "EVICT" if self.sick else "PASS"
        gpus = [(f"ray-worker-{i}", f"{GPU}{i}", state) for i in range(2)]
        devices = tuple(
            DeviceView(node, device, "", state, "", "", 0.0, 0.0, checks)
            for node, device, state in (("ray-worker-0", "cpu", "EVICT"), *gpus)
        )
        return HealthView(self.clock(), devices, (), {}, skipped or {})

    def override(self, node: str, device: str, check: str, state: str, *, message: str) -> None:
        self.orders.append(f"{node} {device} {check} {state}")
        self.sick = "deaf" not in self.says

    def lift(self, node: str, device: str, check: str) -> None:
        self.orders.append("lift")
        self.sick = False

    def run_and_wait(self, node: str, check: str, timeout: float) -> HealthView:
        self.clock.sleep(min(self.seconds, timeout))
        names = [check] if check else self.names
        skipped = {name: why[5:] for name, why in self.says.items() if why.startswith("SKIP")}
        results = [
            CheckView(
                name, "PASS", 0.0, self.says.get(name, "PASS"), None, "", f"{name} was read", {}, 0, 0, False
            )
            for name in names
            if name not in skipped
        ]
        return self.view(*results, skipped={"ray-worker-0": skipped, "ray-head": {"xid": "no GPU"}})


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_with(PLAN, monkeypatch)


def lab_with(plan: GpuPlan, patch: pytest.MonkeyPatch) -> Lab:
    parts = FakeLab()
    parts.runtime.up(LabSpec(gpu=plan, workers=len(plan.assignments)))
    parts.runtime.answer("ray-worker-0", ("python", "-c", questions.SOFTWARE), f"a warning\n{SOFTWARE}\n")
    patch.setattr("lab.flows.doctor.pinning.look", lambda runtime, nodes: ())
    receipt = SimpleNamespace(verdict=Verdict.RECOVERED, reason="it resumed")
    patch.setattr(questions, "inject", lambda *_: SimpleNamespace(receipt=receipt))
    return parts.lab


class Made:
    """An acceptance that has been made."""

    def __init__(
        self, lab: Lab, names: Sequence[str] = ("ecc", "temperature"), seconds: float = 0.0, **says: str
    ) -> None:
        clock = FakeClock()
        self.health = FakeHealth(clock, names, seconds, **says)
        lab.__dict__["health"] = self.health
        self.progress: list[str] = []
        self.kept: list[Any] = []
        begin = clock()
        made = acceptance.Acceptance(lab, clock=clock, wall=clock)
        made.run(self.progress.append, lambda document: self.kept.append(json.loads(json.dumps(document))))
        self.checks = {check.name: check for check in made.checks}
        self.report, self.took = made.report(), clock() - begin

    @property
    def outcomes(self) -> list[str]:
        return [check.outcome for check in self.checks.values()]


def test_gpus_that_do_everything_pass(lab: Lab) -> None:
    made = Made(lab)
    assert list(made.checks) == [*NAMES, *COMPUTED]
    assert set(made.outcomes) == {"passed"}
    assert made.checks["software"].detail == SOFTWARE
    assert made.checks["health"].detail == "4 results on 2 GPUs"
    assert made.checks["recovery"].detail == "recovered: it resumed"
    assert made.health.orders == [f"ray-worker-0 {GPU}0 ecc EVICT", "lift"]
    assert (made.report["schema"], made.report["ok"], made.report["not_checked"]) == (
        "gpu-acceptance/1",
        True,
        [],
    )
    assert made.report["gpus"] == ["H100", "H100"]


def test_progress_says_what_begins_how_long_it_may_take_and_how_it_ended(lab: Lab) -> None:
    assert Made(lab).progress[:2] == ["software (at most 60 s)", "software: passed after 0.0 s"]


def test_the_report_is_kept_before_the_first_check_and_after_each(lab: Lab) -> None:
    kept = Made(lab).kept
    assert [len(document["not_checked"]) for document in kept] == list(range(9, -1, -1))
    assert kept[0]["checks"][0]["detail"] == "not asked: the acceptance ended before that"


def test_a_gpu_that_does_not_compute_leaves_out_what_needs_one_and_names_it(lab: Lab) -> None:
    made = Made(lab, gpumem="SKIP PyTorch 2.10.0+cpu cannot use a GPU here", pciebw="UNKNOWN")
    assert made.outcomes == ["passed"] * 4 + ["failed"] * 2 + ["skipped"] * 3
    assert made.checks["GPUs compute"].detail == "gpumem (PyTorch 2.10.0+cpu cannot use a GPU here)"
    assert "pciebw says UNKNOWN (pciebw was read)" in made.checks["PCIe bandwidth"].detail
    assert made.checks["training"].detail == "needs a GPU that computes: `GPUs compute` has not passed"
    assert made.report["not_checked"] == COMPUTED
    assert made.report["ok"] is False


def test_health_names_the_checks_that_it_could_not_make(lab: Lab) -> None:
    made = Made(lab, dcgm="SKIP dcgmi is not installed")
    assert made.checks["health"].detail == ("4 results on 2 GPUs; not made: dcgm (dcgmi is not installed)")


def test_health_is_not_what_is_asked_alone(lab: Lab) -> None:
    made = Made(lab, ("ecc", "pciebw", "gpumem"), pciebw="UNKNOWN", gpumem="UNKNOWN")
    assert made.checks["health"].detail == "2 results on 2 GPUs"
    failed = [name for name, check in made.checks.items() if check.outcome == "failed"]
    assert failed == ["PCIe bandwidth", "GPUs compute"]


def test_a_sick_gpu_fails_and_the_rest_is_asked_all_the_same(lab: Lab) -> None:
    made = Made(lab, ecc="EVICT")
    assert [name for name, check in made.checks.items() if check.outcome != "passed"] == ["health"]


def test_a_board_that_does_not_hear_of_a_sick_gpu_fails_and_the_order_is_lifted(lab: Lab) -> None:
    made = Made(lab, deaf="yes")
    assert made.checks["sick and well"].detail.startswith("EVICT of the sick GPU: not within 60 s")
    assert made.health.orders[-1] == "lift"


def test_it_ends_within_its_ten_minutes_and_names_what_there_was_no_time_for(lab: Lab) -> None:
    made = Made(lab, seconds=1000.0, gpumem="PASS")
    assert made.took <= acceptance.SECONDS
    assert made.checks["recovery"].detail == "not asked: the ten minutes are over"
    assert "recovery" in str(made.report["not_checked"])


def test_a_training_that_fails_is_told_with_its_cause(lab: Lab) -> None:
    jobs = FakeJobs()
    jobs.ends = replace(job(status="FAILED"), message="RuntimeError: no")
    lab._given["jobs"] = jobs
    lab.forget_connections()
    training = Made(lab).checks["training"]
    assert (training.outcome, training.detail) == ("failed", "RuntimeError: no")


def test_a_job_that_has_not_ended_is_stopped(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.jobs.ends = job(status="RUNNING")  # type: ignore[attr-defined]
    monkeypatch.setattr(FakeJobs, "wait", lambda self, job, timeout: self.get(job))
    Made(lab)
    assert {job.status for job in lab.jobs.list()} == {"STOPPED"}


def test_an_error_is_an_answer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise StoreError("the store is full", "make room")

    monkeypatch.setattr(questions, "inject", fails)
    check = Made(lab).checks["recovery"]
    assert (check.outcome, check.detail, check.hint) == ("failed", "the store is full", "make room")


@pytest.mark.parametrize(
    ("plan", "skipped"),
    [
        (
            replace(PLAN, assignments=PLAN.assignments[:1]),
            {"all-reduce": "needs two GPUs", "recovery": "needs two workers"},
        ),
        (
            replace(PLAN, assignments=tuple(replace(a, gpu=f"{GPU}0") for a in PLAN.assignments)),
            {"all-reduce": "needs a GPU for each worker: NCCL refuses two ranks on one"},
        ),
    ],
    ids=["one GPU", "a shared GPU"],
)
def test_what_such_a_lab_cannot_be_asked_is_named(
    monkeypatch: pytest.MonkeyPatch, plan: GpuPlan, skipped: dict[str, str]
) -> None:
    made = Made(lab_with(plan, monkeypatch))
    assert {c.name: c.detail for c in made.checks.values() if c.outcome == "skipped"} == skipped
    assert made.report["ok"] is True
    assert made.report["not_checked"] == list(skipped)


def test_a_lab_without_gpus_is_refused() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec())
    with pytest.raises(RefusedError, match="has no GPUs"):
        acceptance.Acceptance(Lab(runtime))


def test_a_lab_with_a_job_is_refused(lab: Lab) -> None:
    lab.jobs.put(job("job-7", "RUNNING"), job("job-8"))  # type: ignore[attr-defined]
    with pytest.raises(RefusedError, match=r"1 job .*: job-7$"):
        acceptance.Acceptance(lab)


def test_a_class_that_has_lent_a_worker_is_refused(lab: Lab) -> None:
    lent.write(lab.control.folder(), [Loan("ann", "raylab-ann", ("ray-worker-0",), "w")])
    with pytest.raises(RefusedError, match="ann's own lab raylab-ann: ray-worker-0"):
        acceptance.Acceptance(lab)


def test_the_report_has_no_secret_no_address_and_no_machine(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "secretive")
    at = lab.endpoints()
    secrets = (at.ray_token, at.credentials.secret_key, at.credentials.access_key)
    words = [
        *secrets,
        str(Path.home()),
        "secretive",
        "172.18.0.6:2201",
        "http://127.0.0.1:9/?token=x",
        "ab" * 32,
    ]
    says: dict[str, Any] = {f"check{i}": f"SKIP it said {word} here" for i, word in enumerate(words)}
    text = json.dumps(Made(lab, **says).report, ensure_ascii=False)
    assert len(re.findall("it said (?:…|~|http://127.0.0.1:9/\\?…) here", text)) == len(words)
    assert not [word for word in words if word in text]


def test_a_uuid_and_a_version_stay_in_the_report(lab: Lab) -> None:
    said = "GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a00 with driver 580.65.06"
    assert said in json.dumps(Made(lab, dcgm=f"SKIP {said}").report)


def test_the_documents_name_every_check() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gpus.md").read_text(encoding="utf-8")
    table = page.partition("\n## Acceptance\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == [*NAMES, *COMPUTED]
