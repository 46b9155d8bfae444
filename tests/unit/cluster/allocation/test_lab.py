"""The same from a Lab: who waits, who holds, the view of top, and the refusal to wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.allocation import read
from lab.cluster.allocation.loads import RAYS_OWN
from lab.cluster.allocation.usage_by_job import holdings
from lab.cluster.api import ApiReply
from lab.cluster.jobs import Jobs
from lab.errors import EngineError, LabDownError, NotFoundError, RefusedError
from lab.lab import Lab
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Usage, Vendor
from tests.fakes import FakeRuntime
from tests.unit.cluster.allocation import rows
from tests.unit.cluster.allocation.rows import Dashboard

PLAN = GpuPlan(Vendor.SIMULATED, (GpuAssignment("ray-worker-0"), GpuAssignment("ray-worker-1")), "asked for")


class Measuring(FakeRuntime):
    """Measures the same of every service, or fails."""

    fail: Exception | None = None

    def usage(self, services: Sequence[str]) -> dict[str, Usage]:
        if self.fail is not None:
            raise self.fail
        return dict.fromkeys(services, Usage(42.0))


class Answering(Dashboard):
    """Shows single jobs too."""

    def request(self, method: str, path: str, *, body: Any = None, timeout: float = 10.0) -> ApiReply:
        name = path.removeprefix("/api/jobs/")
        if name in ("", path):
            return super().request(method, path, body=body, timeout=timeout)
        jobs = [row for row in self.lists["jobs"] if row["submission_id"] == name]
        return ApiReply(200, json.dumps(jobs[0]).encode()) if jobs else ApiReply(404, b"{}")


def lab_with(api: Dashboard) -> Lab:
    """A lab that is up, with simulated GPUs, whose dashboard answers so."""
    runtime = Measuring("raylab")
    runtime.up(LabSpec(gpu=PLAN))
    return Lab(runtime, api=api, jobs=Jobs(api))


def one_waits() -> Answering:
    """A job that holds a whole GPU, and one that asks for two."""
    return Answering(
        jobs=(rows.job("a"), rows.job("big", "PENDING", order=1)),
        actors=(rows.supervisor("a", "ray-worker-0", GPU=1.0), rows.supervisor("big", GPU=2.0)),
    )


def test_waiting_is_of_one_job() -> None:
    lab = lab_with(one_waits())
    waiting = lab.waiting("big")
    assert waiting is not None
    assert waiting.kind == "infeasible"
    assert lab.waiting("a") is None


def test_waiting_of_an_unknown_job_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="there is no job 'x'"):
        lab_with(one_waits()).waiting("x")


def test_holdings_are_those_of_every_job() -> None:
    (held,) = holdings(read(one_waits()))
    assert (held.job, held.service, held.what, dict(held.resources)) == (
        "a", "ray-worker-0", "entrypoint", {"GPU": 1.0}
    )  # fmt: skip


def test_top_knows_which_gpus_are_simulated_and_what_the_runtime_measured() -> None:
    view = lab_with(one_waits()).top()
    assert [g.simulated for n in view.nodes for g in n.gpus] == [True, True]
    assert {n.cpu_percent for n in view.nodes} == {42.0}
    assert [w.job for w in view.waiting] == ["big"]


def test_top_goes_on_with_what_ray_knows_when_the_engine_does_not_answer() -> None:
    lab = lab_with(one_waits())
    assert isinstance(lab.runtime, Measuring)
    lab.runtime.fail = EngineError("the Docker Engine does not answer")
    view = lab.top()
    assert {n.cpu_percent for n in view.nodes} == {None}
    assert RAYS_OWN in view.notes


def test_a_lab_that_is_down_has_no_view() -> None:
    with pytest.raises(LabDownError):
        Lab(FakeRuntime("raylab")).top()


def test_a_submission_that_no_node_can_hold_is_refused_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    api = Answering()
    lab = lab_with(api)
    with pytest.raises(RefusedError, match="the largest has 1"):
        lab.submit(command="python train.py", working_dir=tmp_path, num_gpus=2, fail_if_infeasible=True)
    assert not any("/api/jobs" in path or "/api/packages" in path for path in api.asked)
