"""What changes a lab of containers takes turns: `up`, `down`, and every start, that of a revert included."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.errors import LabDownError, RefusedError, ServiceError, SetupError
from lab.host.files import lock
from lab.runtime.compose.runtime import ComposeRuntime
from lab.topology import Progress
from tests.unit.runtime.compose.fake_docker import FakeDocker, spec

WORKER = "ray-worker-0"

CHANGES: dict[str, Callable[[ComposeRuntime], object]] = {
    "up": lambda runtime: runtime.up(spec()),
    "down": lambda runtime: runtime.down(),
    "down with its objects": lambda runtime: runtime.down(volumes=True),
    "start": lambda runtime: runtime.start(WORKER),
}


def busy(docker: FakeDocker, folder: Path, seconds: float, *last: Callable[[], object]) -> None:
    """Let another labctl change the lab for so long; what comes last comes before anybody else's turn."""
    held = ExitStack()
    held.enter_context(lock(folder / "lock", "starting ray-worker-1"))

    def end() -> None:
        held.close()
        for act in last:
            act()

    docker.clock.after(seconds, end)


@pytest.mark.parametrize("change", CHANGES)
def test_who_changes_the_lab_waits_for_another_and_names_it_in_the_end(
    up: ComposeRuntime, docker: FakeDocker, folder: Path, change: str
) -> None:
    up.kill(WORKER)
    docker.journal.clear()
    busy(docker, folder, 10_000.0)
    with pytest.raises(SetupError, match="starting ray-worker-1"):
        CHANGES[change](up)
    assert docker.journal == []


def test_who_waits_says_so(up: ComposeRuntime, docker: FakeDocker, folder: Path) -> None:
    busy(docker, folder, 5.0)
    said: list[Progress] = []
    assert up.down(on_progress=said.append)
    assert said[0].service == "lab lab"
    assert "is busy with starting ray-worker-1" in said[0].detail


@pytest.mark.parametrize("volumes", [False, True])
def test_nothing_starts_in_a_lab_that_was_taken_down_meanwhile(
    up: ComposeRuntime, docker: FakeDocker, folder: Path, volumes: bool
) -> None:
    up.kill(WORKER)
    docker.journal.clear()
    busy(docker, folder, 5.0, lambda: docker.runtime(folder).down(volumes=volumes))
    with pytest.raises(LabDownError):
        up.start(WORKER)
    assert docker.done("start", "create") == []
    assert docker.containers == {}


def test_a_start_whose_node_ray_gives_up_makes_no_container_in_a_lab_that_is_taken_down(
    up: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    up.kill(WORKER)
    docker.gives_up[WORKER] = 1

    def down() -> None:
        docker.runtime(folder).down()

    docker.clock.after(docker.patience + 2.0, down)
    with pytest.raises(ServiceError, match="ray-worker-0"):
        up.start(WORKER)
    assert docker.containers == {}


def test_an_up_for_whose_turn_a_down_waits_does_not_say_that_the_lab_is_healthy(
    up: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    with (
        lock(folder / "down.lock", "stopping lab lab"),
        pytest.raises(RefusedError, match=r"does not stay up: .*stopping"),
    ):
        up.up(spec())
    assert docker.journal == []
    assert up.up(spec()).healthy
