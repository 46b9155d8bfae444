"""The acceptance of a lab's GPUs: what is asked in turn, what follows from it, and what the report says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import RefusedError, StoreError
from lab.flows import acceptance
from lab.lab import Lab
from lab.topology import Check, GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.fakes import FakeRuntime
from tests.fakes.host import FakeClock
from tests.unit.fakes import FakeApi, FakeJobs, job

GPU = "GPU-5c0d"
PLAN = GpuPlan(Vendor.NVIDIA, tuple(GpuAssignment(f"ray-worker-{i}", f"{GPU}{i}", "H100") for i in range(2)))


class FakeHealth:
    """Health of two GPUs; `says` is the last result of each check but those that pass."""

    def __init__(self, **says: str) -> None:
        self.says, self.sick = says, False

    def view(self) -> dict[str, Any]:
        state = "EVICT" if self.sick else "PASS"
        devices = [{"node": f"ray-worker-{i}", "device": f"{GPU}{i}", "state": state} for i in range(2)]
        return {"devices": [{"node": "ray-worker-0", "device": "cpu", "state": "WARN"}, *devices]}

    def override(self, node: str, device: str, check: str, state: str, *, message: str) -> None:
        self.sick = True

    def lift(self, node: str, device: str, check: str) -> None:
        self.sick = False

    def run_and_wait(self, node: str, check: str, timeout: float) -> dict[str, Any]:
        names = [check] if check else ["ecc", "temperature"]
        skipped = {name: why[5:] for name, why in self.says.items() if why.startswith("SKIP")}
        results = [
            {"name": name, "last": self.says.get(name, "PASS"), "message": f"{name} was read"}
            for name in names
            if name not in skipped
        ]
        devices = [{**device, "checks": results} for device in self.view()["devices"]]
        return {"devices": devices, "skipped": {"ray-worker-0": skipped}}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(gpu=PLAN))
    lab = Lab(runtime, api=FakeApi(runtime.nodes), jobs=FakeJobs())
    monkeypatch.setattr("lab.flows.doctor.pinning.look", lambda runtime, nodes: ())
    receipt = SimpleNamespace(verdict="recovered", reason="it resumed")
    monkeypatch.setattr(acceptance, "run_demo", lambda *_: SimpleNamespace(receipt=receipt))
    return lab


def asked(lab: Lab, health: FakeHealth) -> dict[str, Check]:
    lab.__dict__["health"] = health
    heard: list[Check] = []
    answers = acceptance.accept(lab, heard.append, clock=FakeClock())
    assert list(answers) == heard
    return {answer.name: answer for answer in answers}


def outcomes(lab: Lab, health: FakeHealth) -> list[str]:
    return [answer.outcome for answer in asked(lab, health).values()]


def test_gpus_that_do_everything_pass(lab: Lab) -> None:
    health = FakeHealth()
    answers = asked(lab, health)
    assert {answer.outcome for answer in answers.values()} == {"passed"}
    assert answers["health"].detail == "4 results on 2 GPUs"
    assert answers["recovery"].detail == "recovered: it resumed"
    assert not health.sick, "the order is lifted"
    report = acceptance.report(lab, tuple(answers.values()))
    assert (report["schema"], report["ok"], report["gpus"]) == ("gpu-acceptance/1", True, ["H100", "H100"])


def test_a_gpu_that_does_not_compute_leaves_out_what_needs_one(lab: Lab) -> None:
    answers = asked(lab, FakeHealth(gpumem="SKIP PyTorch 2.10.0+cpu cannot use a GPU here", pciebw="UNKNOWN"))
    ended = [answer.outcome for answer in answers.values()]
    assert ended == ["passed"] * 3 + ["failed"] * 2 + ["skipped"] * 3
    assert answers["GPUs compute"].detail == "PyTorch 2.10.0+cpu cannot use a GPU here"
    assert "pciebw says UNKNOWN (pciebw was read)" in answers["PCIe bandwidth"].detail
    assert answers["training"].detail.startswith("needs the device")


def test_a_sick_gpu_fails_and_the_rest_is_asked_all_the_same(lab: Lab) -> None:
    assert outcomes(lab, FakeHealth(ecc="EVICT")) == ["passed", "failed", *["passed"] * 6]


def test_a_training_that_fails_is_told_with_its_cause(lab: Lab) -> None:
    jobs = FakeJobs()
    jobs.ends = replace(job(status="FAILED"), message="RuntimeError: no")
    lab._given["jobs"] = jobs
    lab.forget_connections()
    answers = asked(lab, FakeHealth())
    assert (answers["training"].outcome, answers["training"].detail) == ("failed", "RuntimeError: no")


def test_an_error_is_an_answer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise StoreError("the store is full", "make room")

    monkeypatch.setattr(acceptance, "run_demo", fails)
    answer = asked(lab, FakeHealth())["recovery"]
    assert (answer.outcome, answer.detail, answer.hint) == ("failed", "the store is full", "make room")


def test_two_gpus_are_needed_to_sum_and_two_workers_to_recover(lab: Lab) -> None:
    runtime = FakeRuntime("one")
    runtime.up(LabSpec("one", GpuPlan(Vendor.NVIDIA, PLAN.assignments[:1]), workers=1))
    one = Lab(runtime, api=FakeApi(runtime.nodes), jobs=FakeJobs())
    assert outcomes(one, FakeHealth())[-2:] == ["skipped", "skipped"]


def test_a_lab_without_gpus_is_refused() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec())
    with pytest.raises(RefusedError, match="has no GPUs"):
        acceptance.accept(Lab(runtime), lambda check: None)


def test_the_report_has_no_secret_and_no_machine(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "secretive")
    at = lab.endpoints()
    secrets = (at.ray_token, at.credentials.secret_key, at.credentials.access_key)
    words = [*secrets, str(Path.home()), "secretive"]
    checks = tuple(Check("x", "failed", f"it said {word}", f"look at {word}") for word in words)
    text = json.dumps(acceptance.report(lab, checks))
    assert not [word for word in words if word in text]
    assert json.loads(text)["ok"] is False
