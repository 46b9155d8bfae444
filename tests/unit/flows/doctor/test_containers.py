from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lab.errors import EngineError
from lab.flows.doctor import run_checks
from lab.flows.doctor.containers import compose, container_checks, gpu_access
from lab.flows.doctor.facts import gather_containers
from lab.flows.doctor.model import Containers
from lab.host.gpus import Detection, Gpu
from lab.host.gpus.docker import HOOK, GpuHost
from lab.runtime.base import Runtime
from lab.runtime.compose.engine import DockerEngine
from lab.topology import Vendor
from tests.fakes import FakeRuntime
from tests.unit.flows.doctor.test_machine import GOOD, NONE

H200 = Detection((Gpu(Vendor.NVIDIA, "GPU-1", 0, "NVIDIA H200", 0),))
MI300 = Detection((Gpu(Vendor.AMD, "", 0, "gfx942", 0),))
PLAIN = GpuHost(answers=True, runtimes=("runc",))


def test_compose_is_judged_with_the_reason_and_the_remedy_of_the_engine() -> None:
    assert compose(Containers("2.26.1")).detail == "Compose 2.26.1"
    failed = compose(Containers(error="Compose 2.17 is too old", hint="update it"))
    assert (failed.outcome, failed.detail, failed.hint) == (
        "failed",
        "Compose 2.17 is too old",
        "update it",
    )


@pytest.mark.parametrize(
    ("nvidia", "amd", "host", "outcome", "said"),
    [
        (Detection(), Detection(), PLAIN, "skipped", "this machine has no GPU"),
        (H200, Detection(), GpuHost(), "skipped", "no Docker Engine answers"),
        (H200, Detection(), PLAIN, "warning", "Container Toolkit is not installed"),
        (H200, Detection(), replace(PLAIN, programs=(HOOK,)), "passed", f"nvidia by {HOOK}"),
        (H200, MI300, replace(PLAIN, runtimes=("nvidia",)), "passed", "amd by device files"),
        (Detection(), MI300, replace(PLAIN, desktop=True), "warning", "no /dev/kfd"),
    ],
)
def test_whether_containers_get_the_gpus_there_are(
    nvidia: Detection, amd: Detection, host: GpuHost, outcome: str, said: str
) -> None:
    check = gpu_access(Containers("2.26.1", gpus=host), replace(NONE, nvidia=nvidia, amd=amd))
    assert (check.outcome, said in check.detail) == (outcome, True), check.detail
    assert bool(check.hint) is (outcome == "warning")


class FakeEngine(DockerEngine):
    """Answers with the versions of engine and Compose, or raises `error`."""

    def __init__(self, error: EngineError | None = None) -> None:
        super().__init__()
        self.error = error

    def check(self) -> None:
        if self.error:
            raise self.error

    def ask(self, *arguments: str) -> str:
        self.check()
        return {"compose": "2.26.1\n", "version": "28.2.2\n"}[arguments[0]]


def test_the_facts_are_those_of_the_engine() -> None:
    facts = gather_containers(FakeEngine(), lambda: PLAIN)
    assert facts == Containers("2.26.1", gpus=PLAIN)
    old = gather_containers(FakeEngine(EngineError("too old", "update")), lambda: PLAIN)
    assert old == Containers(error="too old", hint="update", gpus=PLAIN)


def names(kind: str, opener: Runtime | EngineError) -> Sequence[tuple[str, str]]:
    def open_(runtime: str, lab: str) -> Runtime:
        if isinstance(opener, EngineError):
            raise opener
        return opener

    checks = run_checks(
        "raylab",
        kind,
        facts=lambda: GOOD,
        tools=lambda: NONE,
        opener=open_,
        containers=lambda: Containers(error="no Compose", hint="install it"),
    )
    return [(check.name, check.outcome) for check in checks]


def test_an_engine_that_does_not_answer_fails_checks_and_ends_nothing() -> None:
    outcomes = names("compose", EngineError("Docker is not running", "start it"))
    assert {("docker", "failed"), ("compose", "failed"), ("lab", "failed")} <= set(outcomes)
    assert ("GPUs in containers", "skipped") in outcomes


def test_without_containers_nothing_of_them_is_asked() -> None:
    assert not {"compose", "GPUs in containers"} & {name for name, _ in names("local", FakeRuntime("raylab"))}


def test_every_container_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in container_checks(Containers("2.26.1", gpus=PLAIN), NONE)]
    assert len(names) == len(set(names)) == 2
