from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.errors import GpuError, UsageError
from lab.host import gpus
from lab.host.gpus import Detection, Gpu, GpuHolder, GpuRequest
from lab.topology import GpuPlan, Vendor

GIB = 1024**3


def detects(vendor: Vendor, *gib: int, problem: str = "", hint: str = "") -> Callable[[], Detection]:
    made = tuple(Gpu(vendor, f"GPU-{i}", i, "chip", size * GIB) for i, size in enumerate(gib))
    return lambda: Detection(made, problem, hint)


NO_NVIDIA = detects(Vendor.NVIDIA, problem="NVIDIA's driver is not installed", hint="install it")
NO_AMD = detects(Vendor.AMD, problem="AMD's kernel driver is not loaded", hint="load it")


def never() -> Detection:
    raise AssertionError("this vendor was not asked for")


@pytest.mark.parametrize(("have", "workers"), [(2, 2), (8, 2), (8, 8), (1, 1)])
def test_each_worker_is_pinned_to_an_nvidia_gpu_of_its_own_by_uuid(have: int, workers: int) -> None:
    plan = gpus.plan(GpuRequest("nvidia"), workers, nvidia=detects(Vendor.NVIDIA, *[80] * have), amd=never)
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
    plan = gpus.plan(GpuRequest("nvidia"), 2, nvidia=detects(Vendor.NVIDIA, 80, 4, 80), amd=never)
    assert [a.gpu for a in plan.assignments] == ["GPU-0", "GPU-2"]


@pytest.mark.parametrize(
    ("nvidia", "amd", "vendor"),
    [
        (detects(Vendor.NVIDIA, 80, 80), detects(Vendor.AMD, 64, 64), Vendor.NVIDIA),
        (NO_NVIDIA, detects(Vendor.AMD, 64, 64), Vendor.AMD),
        (detects(Vendor.NVIDIA, 80), detects(Vendor.AMD, 64, 64), Vendor.AMD),
        (NO_NVIDIA, NO_AMD, Vendor.SIMULATED),
        (detects(Vendor.NVIDIA, 80), NO_AMD, Vendor.SIMULATED),
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
    reason = gpus.plan(GpuRequest("auto"), 2, nvidia=detects(Vendor.NVIDIA, 80), amd=NO_AMD).reason
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
            nvidia=detects(Vendor.NVIDIA, 80, 80, problem="GPU 2 is left out"),
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


# GPUs that another lab holds

OTHER = GpuHolder("other", "/labs/other")


@pytest.fixture(autouse=True)
def labs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYLAB_HOME", "/labs")


def planned(
    choice: str, workers: int, *held: int, gpus_: tuple[str, ...] = (), share: bool = False
) -> GpuPlan:
    """A plan on four NVIDIA GPUs of which another lab holds these."""
    return gpus.plan(
        GpuRequest(choice, gpus_, share),
        workers,
        nvidia=detects(Vendor.NVIDIA, 80, 80, 80, 80),
        amd=NO_AMD,
        held={f"GPU-{index}": OTHER for index in held},
    )


@pytest.mark.parametrize("choice", ["nvidia", "auto"])
def test_a_second_lab_takes_the_gpus_that_are_free(choice: str) -> None:
    assert planned(choice, 2, 0, 2).devices == ("GPU-1", "GPU-3")


def test_workers_share_only_what_is_free() -> None:
    assert planned("nvidia", 2, 0, 1, 2, share=True).devices == ("GPU-3",)


def test_too_few_free_gpus_are_an_error_that_names_the_other_lab_and_what_frees_them() -> None:
    with pytest.raises(GpuError) as caught:
        planned("nvidia", 2, 0, 1, 2, 3)
    assert caught.value.message == "--gpu nvidia: 4 NVIDIA GPUs held by lab other"
    assert caught.value.hint.startswith("`labctl down --lab other` frees it; or use --gpu simulated")
    with pytest.raises(GpuError, match=r"1 NVIDIA GPU .*lab other"):
        planned("nvidia", 2, 0, 1, 2)


@pytest.mark.parametrize("held", [(0, 1, 2), (0, 1, 2, 3)])
def test_auto_simulates_where_another_lab_has_the_gpus_and_says_so(held: tuple[int, ...]) -> None:
    plan = planned("auto", 2, *held)
    assert plan.vendor is Vendor.SIMULATED
    assert f"{len(held)} NVIDIA GPUs held by lab other" in plan.reason


def test_a_gpu_that_is_named_and_held_is_an_error_that_names_the_other_lab() -> None:
    with pytest.raises(GpuError) as caught:
        planned("auto", 2, 1, gpus_=("0", "1"))
    assert caught.value.message == "GPU GPU-1 is held by lab other"
    assert "--gpus" in caught.value.hint


def test_a_lab_of_another_home_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYLAB_HOME", "/home/me/.raylab")
    assert str(OTHER) == "lab other of /labs"
    assert OTHER.hint == "`RAYLAB_HOME=/labs labctl down --lab other` frees it"


def test_an_amd_gpu_is_known_by_its_render_node() -> None:
    nodes = ("/dev/kfd", "/dev/dri/renderD129")
    both = Detection(
        (Gpu(Vendor.AMD, "", 0, "gfx942", GIB, nodes, 129), Gpu(Vendor.AMD, "", 1, "gfx942", GIB)),
    )
    plan = gpus.plan(GpuRequest("amd"), 1, nvidia=never, amd=lambda: both, held={"renderD129": OTHER})
    assert [a.gpu for a in plan.assignments] == ["1"]
