"""The settings of `Lab.up`: defaults, what is asked for, and what a lab that is up keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.errors import GpuError, RefusedError, UnsupportedError, UsageError
from lab.host.gpus import Detection
from lab.lab import Lab
from lab.runtime.spec import Asked, gpu_plan, gpus_here, spec_of
from lab.runtime.statefile import check_same
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.fakes import FakeRuntime


def test_without_settings_a_new_lab_is_what_labctl_up_starts() -> None:
    spec = spec_of(FakeRuntime("mine"), Asked(gpu="none"))

    assert spec == LabSpec("mine", gpu_plan("none", 2, "fake"))


def test_settings_make_the_spec() -> None:
    asked = Asked(gpu="simulated", workers=3, cpus_per_worker=4, ports=(("s3", 9000),))
    spec = spec_of(FakeRuntime("mine"), asked)

    assert (spec.workers, spec.cpus_per_worker, spec.ports) == (3, 4, (("s3", 9000),))
    assert (spec.gpu.vendor, len(spec.gpu.assignments)) == (Vendor.SIMULATED, 3)


def test_a_lab_that_is_up_keeps_what_is_not_said() -> None:
    lab = Lab(FakeRuntime("mine"))
    lab.up(gpu="simulated", workers=3, cpus_per_worker=4)

    assert lab.up().healthy
    assert lab.up(gpu="simulated", workers=3).healthy
    spec = lab.runtime.spec()
    assert (spec.workers, spec.cpus_per_worker, spec.gpu.vendor) == (3, 4, Vendor.SIMULATED)


@pytest.mark.parametrize(
    "asked",
    [
        *(Asked(), Asked(workers=3), Asked(gcs_ft=True), Asked(stock_ray=True), Asked(queued_only=True)),
    ],
)
def test_no_other_setting_is_lost_by_a_repair(asked: Asked) -> None:
    runtime = FakeRuntime("mine")
    started = LabSpec(
        "mine",
        gpu_plan("simulated", 3, "fake"),
        3,
        4,
        stock_ray=True,
        gcs_ft=True,
        queued_only=True,
    )
    runtime.up(started)

    assert spec_of(runtime, asked) == started


def test_a_refusal_names_what_differs_and_only_that() -> None:
    up = LabSpec("mine", gpu_plan("simulated", 3, "fake"), 3, 4)
    nvidia = tuple(GpuAssignment(f"ray-worker-{i}", f"GPU-{i}") for i in range(2))
    turned = tuple(GpuAssignment(f"ray-worker-{i}", f"GPU-{1 - i}") for i in range(2))

    assert up.unlike(up) == ""
    assert up.unlike(replace(up, ports=(("s3", 9000),), name="other")) == ""
    assert up.unlike(replace(up, workers=2, gcs_ft=True)) == "2 workers, head's state in Redis"
    assert replace(up, gcs_ft=True).unlike(up) == "head's state in memory"
    assert up.unlike(replace(up, cpus_per_worker=8, stock_ray=True)) == "8 CPUs each, stock Ray"
    assert (
        replace(up, gpu=GpuPlan(Vendor.NVIDIA, nvidia)).unlike(
            replace(up, gpu=GpuPlan(Vendor.NVIDIA, turned))
        )
        == "GPU nvidia (GPU-1 GPU-0)"
    )
    assert up.unlike(replace(up, gpu=replace(up.gpu, assignments=()))) == "other GPUs"

    with pytest.raises(RefusedError) as caught:
        check_same(up, {}, replace(up, workers=2), UnsupportedError)
    assert caught.value.message.endswith("(3 workers, 4 CPUs each, GPU simulated), not with 2 workers")
    assert "labctl down" in caught.value.hint


@pytest.mark.parametrize("settings", [{"workers": 2}, {"cpus_per_worker": 1}, {"gpu": "none"}])
def test_other_settings_for_a_lab_that_is_up_are_refused(settings: dict[str, int]) -> None:
    lab = Lab(FakeRuntime("mine"))
    lab.up(gpu="simulated", workers=3)

    with pytest.raises(RefusedError, match="up with other settings"):
        lab.up(**settings)  # type: ignore[arg-type]


def test_settings_that_make_no_sense_are_refused_before_anything_starts() -> None:
    lab = Lab(FakeRuntime("mine"))

    for settings in ({"workers": 0}, {"cpus_per_worker": 0}, {"gpu": "abacus"}, {"ports": {"ftp": 2000}}):
        with pytest.raises(UsageError):
            lab.up(**settings)
    with pytest.raises(UsageError, match="a spec and"):
        lab.up(LabSpec("mine"), workers=2)
    with pytest.raises((UsageError, GpuError)):
        lab.up(gpu="simulated", gpus=["0", "1"])
    assert not lab.status().up


@pytest.mark.parametrize("kind", ["compose", "local"])
def test_only_containers_need_docker_to_have_gpus(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    driverless, unreachable = Detection(problem="no driver"), Detection(problem="no toolkit")
    monkeypatch.setattr("lab.host.gpus.nvidia_gpus", lambda: driverless)
    monkeypatch.setattr("lab.host.gpus.amd_gpus", lambda: driverless)
    monkeypatch.setattr("lab.host.gpus.docker.listed", lambda: (unreachable, unreachable))
    assert gpus_here(kind) == ((unreachable,) * 2 if kind == "compose" else (driverless,) * 2)
