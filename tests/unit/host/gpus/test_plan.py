from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.errors import GpuError, UsageError
from lab.host import gpus
from lab.host.gpus import Detection, Gpu, GpuRequest
from lab.topology import Vendor

GIB = 1024**3


def found(vendor: Vendor, *gib: int, problem: str = "", hint: str = "") -> Callable[[], Detection]:
    made = tuple(Gpu(vendor, f"GPU-{i}", i, "chip", size * GIB) for i, size in enumerate(gib))
    return lambda: Detection(made, problem, hint)


NO_NVIDIA = found(Vendor.NVIDIA, problem="NVIDIA's driver is not installed", hint="install it")
NO_AMD = found(Vendor.AMD, problem="AMD's kernel driver is not loaded", hint="load it")


def never() -> Detection:
    raise AssertionError("this vendor was not asked for")


@pytest.mark.parametrize(("have", "workers"), [(2, 2), (8, 2), (8, 8), (1, 1)])
def test_each_worker_is_pinned_to_an_nvidia_gpu_of_its_own_by_uuid(have: int, workers: int) -> None:
    plan = gpus.plan(GpuRequest("nvidia"), workers, nvidia=found(Vendor.NVIDIA, *[80] * have), amd=never)
    assert plan.vendor is Vendor.NVIDIA
    assert [(a.service, a.gpu) for a in plan.assignments] == [
        (f"ray-worker-{i}", f"GPU-{i}") for i in range(workers)
    ]
    assert plan.assignments[0].name == "chip, 80 GiB"
    assert f"{have} NVIDIA GPU" in plan.reason


def test_amd_gpus_are_pinned_by_their_index_in_hips_order() -> None:
    both = Detection(tuple(Gpu(Vendor.AMD, "", i, "gfx1100", 24 * GIB) for i in (1, 2)))
    plan = gpus.plan(GpuRequest("amd"), 2, nvidia=never, amd=lambda: both)
    assert [(a.service, a.gpu) for a in plan.assignments] == [("ray-worker-0", "1"), ("ray-worker-1", "2")]


def test_the_larger_gpus_are_taken_first_and_kept_in_order() -> None:
    plan = gpus.plan(GpuRequest("nvidia"), 2, nvidia=found(Vendor.NVIDIA, 80, 4, 80), amd=never)
    assert [a.gpu for a in plan.assignments] == ["GPU-0", "GPU-2"]


@pytest.mark.parametrize(
    ("nvidia", "amd", "vendor"),
    [
        (found(Vendor.NVIDIA, 80, 80), found(Vendor.AMD, 64, 64), Vendor.NVIDIA),
        (NO_NVIDIA, found(Vendor.AMD, 64, 64), Vendor.AMD),
        (found(Vendor.NVIDIA, 80), found(Vendor.AMD, 64, 64), Vendor.AMD),
        (NO_NVIDIA, NO_AMD, Vendor.SIMULATED),
        (found(Vendor.NVIDIA, 80), NO_AMD, Vendor.SIMULATED),
    ],
    ids=["both", "amd only", "too few nvidia", "none", "one for two workers"],
)
def test_auto_takes_the_first_vendor_with_a_gpu_for_every_worker(
    nvidia: gpus.Detector, amd: gpus.Detector, vendor: Vendor
) -> None:
    plan = gpus.plan(GpuRequest("auto"), 2, nvidia=nvidia, amd=amd)
    assert plan.vendor is vendor
    assert len(plan.assignments) == 2
    assert plan.reason.startswith("auto: ")


def test_auto_says_why_it_simulates() -> None:
    reason = gpus.plan(GpuRequest("auto"), 2, nvidia=found(Vendor.NVIDIA, 80), amd=NO_AMD).reason
    assert "1 NVIDIA GPU for 2 workers" in reason
    assert "--gpu nvidia --workers 1" in reason
    assert "AMD's kernel driver is not loaded" in reason


@pytest.mark.parametrize(("choice", "other"), [("nvidia", "install it"), ("amd", "load it")])
def test_gpus_asked_for_and_missing_are_an_error_that_says_what_is_missing(choice: str, other: str) -> None:
    with pytest.raises(GpuError) as caught:
        gpus.plan(GpuRequest(choice), 1, nvidia=NO_NVIDIA, amd=NO_AMD)
    assert f"--gpu {choice}: " in caught.value.message
    assert "driver is not" in caught.value.message
    assert other in caught.value.hint
    assert "--gpu simulated" in caught.value.hint


def test_fewer_gpus_than_workers_are_an_error_with_the_number_that_fits() -> None:
    with pytest.raises(GpuError) as caught:
        gpus.plan(
            GpuRequest("nvidia"),
            4,
            nvidia=found(Vendor.NVIDIA, 80, 80, problem="GPU 2 is left out"),
            amd=never,
        )
    assert "2 NVIDIA GPUs for 4 workers" in caught.value.message
    assert "GPU 2 is left out" in caught.value.message
    assert "--workers 2" in caught.value.hint


def test_simulated_gives_each_worker_a_logical_gpu_and_looks_for_no_device() -> None:
    plan = gpus.plan(GpuRequest("simulated"), 3, nvidia=never, amd=never)
    assert plan.vendor is Vendor.SIMULATED
    assert [(a.service, a.gpu) for a in plan.assignments] == [(f"ray-worker-{i}", "") for i in range(3)]


def test_none_gives_no_gpu_and_looks_for_no_device() -> None:
    plan = gpus.plan(GpuRequest("none"), 3, nvidia=never, amd=never)
    assert (plan.vendor, plan.assignments) == (Vendor.NONE, ())


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(UsageError, match="intel"):
        gpus.plan(GpuRequest("intel"), 1, nvidia=never, amd=never)
