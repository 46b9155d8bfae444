"""What workers see, against what they are pinned to."""

from __future__ import annotations

import json

import pytest

from lab.cluster.api import Node
from lab.errors import PinningError
from lab.flows.doctor.pinning import SeenGpu, SeenGpus, check, compare, look, parse
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.fakes import FakeRuntime

ONE, TWO = "5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a01", "8e1a2b3c-5555-6666-7777-888888888888"
W0, W1 = "ray-worker-0", "ray-worker-1"


def nvidia(first: str = f"GPU-{ONE}", second: str = f"GPU-{TWO}") -> GpuPlan:
    return GpuPlan(Vendor.NVIDIA, (GpuAssignment(W0, first), GpuAssignment(W1, second)))


def sees(*gpus: str, problem: str = "") -> SeenGpus:
    return SeenGpus(tuple(SeenGpu(gpu, "NVIDIA H200") for gpu in gpus), problem)


def problems(
    plan: GpuPlan, first: SeenGpus, second: SeenGpus, counted: dict[str, float] | None = None
) -> list[str]:
    views = compare(plan, {W0: first, W1: second}, {W0: 1.0, W1: 1.0} if counted is None else counted)
    assert [view.service for view in views] == [W0, W1]
    return [view.problem for view in views]


@pytest.mark.parametrize(
    ("plan", "first", "second"),
    [
        (nvidia(), sees(ONE), sees(TWO)),
        (nvidia(f"MIG-{ONE}", f"MIG-{TWO}"), sees(ONE), sees(TWO)),
        (nvidia(f"GPU-{ONE.upper()}"), sees(ONE), sees(TWO)),
        (nvidia(second=f"GPU-{ONE}"), sees(ONE), sees(ONE)),
        (GpuPlan(Vendor.SIMULATED, (GpuAssignment(W0), GpuAssignment(W1))), sees(), sees()),
    ],
    ids=["a GPU each", "a slice each", "spelling", "shared as planned", "simulated"],
)
def test_workers_that_see_what_they_are_pinned_to_pass(
    plan: GpuPlan, first: SeenGpus, second: SeenGpus
) -> None:
    assert problems(plan, first, second) == ["", ""]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (sees(ONE), sees(ONE), [f"sees GPU {ONE}, which ray-worker-0 sees too"]),
        (sees(ONE), sees(problem="the driver is gone"), ["sees no GPU (the driver is gone)"]),
        (sees(ONE), sees(), ["sees no GPU"]),
        (sees(ONE), sees("ffff"), [f"sees GPU ffff and is pinned to GPU-{TWO}"]),
        (sees(ONE), sees(TWO, "ffff"), ["sees 2 GPUs", "is pinned to one"]),
        (sees(ONE), sees(ONE, TWO), ["which ray-worker-0 sees too"]),
    ],
    ids=["the same", "none, with the reason", "none", "another", "several", "all"],
)
def test_a_worker_that_sees_something_else_fails(first: SeenGpus, second: SeenGpus, said: list[str]) -> None:
    good, bad = problems(nvidia(), first, second)
    assert good == ""
    assert all(piece in bad for piece in said), bad


def test_workers_that_share_must_see_the_gpu_they_share() -> None:
    shared = nvidia(second=f"GPU-{ONE}")
    assert problems(shared, sees(ONE), sees(TWO))[1] == f"sees GPU {TWO} and is pinned to GPU-{ONE}"


def test_an_amd_gpu_is_recognised_by_its_render_node() -> None:
    def pinned(service: str, minor: int, index: str) -> GpuAssignment:
        return GpuAssignment(service, index, "gfx942", ("/dev/kfd", f"/dev/dri/renderD{minor}"))

    plan = GpuPlan(Vendor.AMD, (pinned(W0, 129, "0"), pinned(W1, 128, "1")))
    assert problems(plan, sees("renderD129"), sees("renderD128")) == ["", ""]
    assert "sees GPU renderD130" in problems(plan, sees("renderD129"), sees("renderD130"))[1]


@pytest.mark.parametrize(
    ("vendor", "counted", "said"),
    [
        (Vendor.SIMULATED, {W0: 1.0}, "has no living node in Ray"),
        (Vendor.SIMULATED, {W0: 1.0, W1: 0.0}, "has 0 GPUs for Ray, 1 planned"),
        (Vendor.SIMULATED, {W0: 1.0, W1: 4.0}, "has 4 GPUs for Ray, 1 planned"),
        (Vendor.NONE, {W0: 0.0, W1: 1.0}, "has 1 GPUs for Ray, 0 planned"),
    ],
)
def test_rays_own_count_is_part_of_it(vendor: Vendor, counted: dict[str, float], said: str) -> None:
    pinned = (GpuAssignment(W0), GpuAssignment(W1)) if vendor is Vendor.SIMULATED else ()
    assert problems(GpuPlan(vendor, pinned), sees(), sees(), counted) == ["", said]


def test_the_error_names_every_worker_and_the_way_to_mend_it() -> None:
    views = compare(nvidia(), {W0: sees(), W1: sees(ONE)}, {W0: 1.0, W1: 1.0})
    with pytest.raises(PinningError) as caught:
        check(views)
    assert "ray-worker-0 sees no GPU; ray-worker-1 sees GPU" in caught.value.message
    assert "labctl restart ray-worker-0" in caught.value.hint
    check(compare(nvidia(), {W0: sees(ONE), W1: sees(TWO)}, {W0: 1.0, W1: 1.0}))


def test_an_answer_is_the_last_line_that_can_be_one() -> None:
    line = json.dumps({"gpus": [{"gpu": ONE, "name": "NVIDIA H200"}], "problem": ""})
    assert parse(f"a warning\n{line}\nanother warning\n") == sees(ONE)


@pytest.mark.parametrize("output", ["", "command not found", '{"gpus": 3}', "{"])
def test_an_answer_that_is_none_is_a_problem(output: str) -> None:
    answer = parse(output)
    assert answer.gpus == ()
    assert "not understood" in answer.problem


def node(service: str) -> Node:
    return Node(service, service, True, False, {"CPU": 8.0, "GPU": 1.0}, 0.0, None, "")


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_every_worker_of_a_running_lab_is_asked_inside(vendor: str) -> None:
    plan = (
        nvidia()
        if vendor == "nvidia"
        else GpuPlan(
            Vendor.AMD,
            tuple(
                GpuAssignment(w, str(i), "", ("/dev/kfd", f"/dev/dri/renderD{128 + i}"))
                for i, w in enumerate((W0, W1))
            ),
        )
    )
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab", plan))
    argv = ("python", "-m", "raylab_node.gpus", vendor)
    seen = {"nvidia": ONE, "amd": "renderD128"}[vendor]
    runtime.answer(W0, argv, json.dumps({"gpus": [{"gpu": seen, "name": "x"}], "problem": ""}))
    views = look(runtime, [node(W0), node(W1)])
    assert [view.problem for view in views] == ["", "sees no GPU (python: not found)"]
    runtime.kill(W0)
    assert look(runtime, [node(W1)])[0].problem.startswith("sees no GPU (")


def test_workers_without_devices_are_asked_nothing() -> None:
    plan = GpuPlan(Vendor.SIMULATED, (GpuAssignment(W0), GpuAssignment(W1)))
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab", plan))
    assert [view.problem for view in look(runtime, [node(W0), node(W1)])] == ["", ""]
