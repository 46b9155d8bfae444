"""--gpus and --share-gpu."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.errors import GpuError, LabError, UsageError
from lab.host import gpus
from lab.host.gpus import Detection, Gpu, GpuRequest, sharing_note
from lab.topology import GpuPlan, Vendor

GIB = 1024**3

ADA, BABBAGE, CRAY = (
    Gpu(Vendor.NVIDIA, uuid, index, "NVIDIA H200", 140 * GIB)
    for index, uuid in enumerate(
        (
            "GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a01",
            "GPU-5c0d0000-1111-2222-3333-444444444444",
            "GPU-8e1a2b3c-5555-6666-7777-888888888888",
        )
    )
)
SLICES = tuple(
    Gpu(
        Vendor.NVIDIA,
        f"MIG-{start}0000-0000-5000-8000-00000000000{i}",
        0,
        "NVIDIA A100 MIG 1g.10gb",
        10 * GIB,
    )
    for i, start in enumerate(("a1b2", "c3d4", "e5f6"))
)
MI300 = tuple(
    Gpu(
        Vendor.AMD,
        f"GPU-{0xABC0 + i:016x}",
        i,
        "gfx942",
        192 * GIB,
        ("/dev/kfd", f"/dev/dri/renderD{minor}"),
        minor,
        (105, 44),
    )
    for i, minor in enumerate((129, 128))
)


def make(
    *chosen: str,
    workers: int = 2,
    choice: str = "auto",
    nvidia: tuple[Gpu, ...] = (ADA, BABBAGE, CRAY),
    amd: tuple[Gpu, ...] = (),
    share: bool = False,
) -> GpuPlan:
    def seen(gpus: tuple[Gpu, ...], problem: str) -> Callable[[], Detection]:
        return lambda: Detection(gpus) if gpus else Detection(problem=problem, hint="load it")

    return gpus.plan(
        GpuRequest(choice, chosen, share),
        workers,
        nvidia=seen(nvidia, "no NVIDIA driver"),
        amd=seen(amd, "no AMD driver"),
    )


def pinned(plan: GpuPlan) -> list[str]:
    assert [a.service for a in plan.assignments] == [f"ray-worker-{i}" for i in range(len(plan.assignments))]
    return [a.gpu for a in plan.assignments]


@pytest.mark.parametrize(
    ("chosen", "meant"),
    [
        ((CRAY.uuid, ADA.uuid), (CRAY, ADA)),
        (("GPU-8", "GPU-5c0d9"), (CRAY, ADA)),
        (("8e1a", "5c0d0"), (CRAY, BABBAGE)),
        (("gpu-8E1A", "5C0D9F"), (CRAY, ADA)),
        (("2", "0"), (CRAY, ADA)),
        (("1", CRAY.uuid), (BABBAGE, CRAY)),
    ],
    ids=["uuid", "beginning", "without GPU-", "any case", "index", "mixed"],
)
def test_gpus_are_named_in_the_order_of_the_workers(chosen: tuple[str, ...], meant: tuple[Gpu, ...]) -> None:
    plan = make(*chosen)
    assert plan.vendor is Vendor.NVIDIA
    assert pinned(plan) == [gpu.uuid for gpu in meant]
    assert not plan.shared
    assert "--gpus" in plan.reason


def test_a_mig_slice_is_named_by_its_uuid() -> None:
    assert pinned(make("MIG-e5", "a1b2", nvidia=SLICES)) == [SLICES[2].uuid, SLICES[0].uuid]


def test_the_index_of_a_gpu_with_several_slices_is_ambiguous() -> None:
    with pytest.raises(UsageError, match="--gpus 0: ambiguous") as caught:
        make("0", "MIG-a1", nvidia=SLICES)
    assert "UUID" in caught.value.hint


@pytest.mark.parametrize(
    ("chosen", "more", "kind", "said", "todo"),
    [
        (("GPU-ffff", "0"), {}, GpuError, "--gpus GPU-ffff: there is no such", "nvidia 0: GPU-5c0d9f13"),
        (("7", "0"), {}, GpuError, "--gpus 7: there is no such", "labctl gpus"),
        (("GPU-5c0d", "2"), {}, UsageError, "--gpus GPU-5c0d: ambiguous", "more of the UUID"),
        (("GPU-", "2"), {}, UsageError, "--gpus GPU-: ambiguous", "more of the UUID"),
        (("0", ADA.uuid), {}, UsageError, "named twice", "--share-gpu"),
        (("0",), {}, UsageError, "names 1 GPU for 2 workers", "--workers 1"),
        (("0", "1", "2"), {}, UsageError, "names 3 GPUs for 2 workers", "--workers 3"),
        (("0", "1", "2"), {"share": True}, UsageError, "names 3 GPUs for 2 workers", "--workers 3"),
        (("0", "1"), {"amd": MI300}, UsageError, "both vendors have such a GPU", "--gpu nvidia or --gpu amd"),
        (("GPU-8", "renderD128"), {"amd": MI300}, UsageError, "GPUs of both vendors", "--gpu nvidia"),
        (("0", "1"), {"nvidia": ()}, GpuError, "no NVIDIA or AMD GPU (no NVIDIA driver; no AMD", "load it"),
        (("renderD128", "0"), {"choice": "nvidia", "amd": MI300}, GpuError, "no such NVIDIA GPU", ""),
        (("0", "1"), {"choice": "simulated"}, UsageError, "--gpus makes no sense", "--gpu nvidia"),
    ],
)
def test_names_that_cannot_be_meant_are_refused_with_what_to_write(
    chosen: tuple[str, ...], more: dict[str, object], kind: type[LabError], said: str, todo: str
) -> None:
    with pytest.raises(kind) as caught:
        make(*chosen, **more)  # type: ignore[arg-type]
    assert type(caught.value) is kind
    assert said in caught.value.message
    assert todo in caught.value.hint


def test_with_two_vendors_the_choice_of_one_makes_an_index_unambiguous() -> None:
    assert make("1", "0", choice="amd", amd=MI300).vendor is Vendor.AMD
    assert make("1", "0", choice="nvidia", amd=MI300).vendor is Vendor.NVIDIA


@pytest.mark.parametrize("choice", ["auto", "nvidia"])
def test_workers_share_the_only_gpu_when_told_to(choice: str) -> None:
    plan = make(nvidia=(ADA,), share=True, choice=choice)
    assert pinned(plan) == [ADA.uuid, ADA.uuid]
    assert plan.shared
    assert plan.devices == (ADA.uuid,)


def test_three_workers_take_two_gpus_in_turn() -> None:
    assert pinned(make("2", "0", workers=3, share=True)) == [CRAY.uuid, ADA.uuid, CRAY.uuid]


def test_a_gpu_named_twice_is_shared_as_named() -> None:
    assert pinned(make("2", "2", "0", workers=3, share=True)) == [CRAY.uuid, CRAY.uuid, ADA.uuid]


def test_nothing_is_shared_where_there_is_a_gpu_for_every_worker() -> None:
    plan = make(share=True)
    assert pinned(plan) == [ADA.uuid, BABBAGE.uuid]
    assert not plan.shared
    assert sharing_note(plan) == ""


def test_what_sharing_means_is_said_with_the_services() -> None:
    note = sharing_note(make("0", "1", workers=3, share=True))
    assert f"ray-worker-0, ray-worker-2 share GPU {ADA.uuid}" in note
    assert BABBAGE.uuid not in note
    assert "without a limit" in note
    assert "Duplicate GPU detected" in note
    assert "Gloo" in note


@pytest.mark.parametrize("choice", ["simulated", "none"])
def test_there_is_nothing_to_share_without_real_gpus(choice: str) -> None:
    with pytest.raises(UsageError, match="--share-gpu makes no sense"):
        make(share=True, choice=choice)


def test_auto_simulates_where_there_is_nothing_to_share() -> None:
    plan = make(share=True, nvidia=())
    assert plan.vendor is Vendor.SIMULATED
    assert not plan.shared


def test_auto_names_the_way_to_share_too_few_gpus() -> None:
    assert "--share-gpu" in make(nvidia=(ADA,)).reason
    with pytest.raises(GpuError) as caught:
        make(nvidia=(ADA,), choice="nvidia")
    assert "--share-gpu" in caught.value.hint


@pytest.mark.parametrize(
    "names", [("1", "0"), ("renderD128", "/dev/dri/renderD129"), ("000000000000abc1", MI300[0].uuid)]
)
def test_an_amd_gpu_is_named_by_index_render_node_or_unique_id(names: tuple[str, str]) -> None:
    plan = make(*names, nvidia=(), amd=MI300)
    assert plan.vendor is Vendor.AMD
    assert pinned(plan) == ["1", "0"]
    assert plan.assignments[0].device_nodes == ("/dev/kfd", "/dev/dri/renderD128")
    assert plan.assignments[0].groups == (105, 44)
