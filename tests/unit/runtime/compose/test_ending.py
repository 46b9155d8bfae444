"""What the engine says failed although it did not, and what it says was done although it is not, yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lab.errors import EngineError
from lab.runtime.compose.ending import FREEZE_TRIES, PATIENCE_SECONDS
from lab.runtime.compose.runtime import ComposeRuntime
from lab.topology import State, Struck
from tests.unit.runtime.compose.fake_docker import FakeDocker

WORKER = "ray-worker-0"
NO_EVENT = EngineError("docker failed: tried to kill container, but did not receive an exit event")

ACTS: dict[str, tuple[Callable[[ComposeRuntime], Struck], dict[str, Any], State]] = {
    "kill": (lambda r: r.kill(WORKER), {"state": "exited", "exit_code": 137}, State.EXITED),
    "stop": (lambda r: r.stop(WORKER), {"state": "exited"}, State.EXITED),
    "pause": (lambda r: r.pause(WORKER), {"state": "paused"}, State.PAUSED),
}


@pytest.mark.parametrize("verb", ACTS)
@pytest.mark.parametrize("delay", [0.0, PATIENCE_SECONDS - 5])
def test_what_is_done_although_the_engine_says_it_failed_is_done(
    up: ComposeRuntime, docker: FakeDocker, verb: str, delay: float
) -> None:
    act, becomes, state = ACTS[verb]
    docker.fails[verb, WORKER] = NO_EVENT
    docker.clock.after(delay, lambda: docker.change(docker.find(WORKER).id, **becomes))

    act(up)

    worker = up.status().service(WORKER)
    assert worker is not None
    assert worker.state is state


@pytest.mark.parametrize("verb", ACTS)
def test_what_is_not_done_is_the_engines_error(up: ComposeRuntime, docker: FakeDocker, verb: str) -> None:
    docker.fails[verb, WORKER] = NO_EVENT
    with pytest.raises(EngineError, match="an exit event"):
        ACTS[verb][0](up)


@pytest.mark.parametrize(("failures", "frozen"), [(FREEZE_TRIES - 1, True), (FREEZE_TRIES, False)])
def test_a_container_that_does_not_freeze_in_time_is_frozen_again(
    up: ComposeRuntime, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, failures: int, frozen: bool
) -> None:
    act, tries = up._engine.act, []

    def freeze(verb: str, names: Sequence[str], *options: str, **more: Any) -> None:
        if verb == "pause":
            tries.append(docker.clock())
            if len(tries) <= failures:
                raise EngineError("docker failed: OCI runtime pause failed: unable to freeze: unknown")
        act(verb, names, *options, **more)

    monkeypatch.setattr(up._engine, "act", freeze)
    with contextlib.nullcontext() if frozen else pytest.raises(EngineError, match="unable to freeze"):
        up.pause(WORKER)

    assert len(tries) == FREEZE_TRIES
    assert (docker.find(WORKER).state == "paused") is frozen


def test_what_is_left_of_a_node_has_ended_before_it_is_started_afresh(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    """`docker start` of a container that still counts as running does nothing, and says nothing."""
    docker.ghosts = [
        node for node in docker.list_nodes(up.endpoints().dashboard, "") if node.service != WORKER
    ]
    docker.fails["kill", WORKER] = NO_EVENT

    def ended() -> None:
        docker.change(docker.find(WORKER).id, state="exited", exit_code=137)
        docker.ghosts = ()

    docker.clock.after(5.0, ended)
    killed = docker.clock()
    up.start(WORKER)
    assert docker.find(WORKER).started_at >= killed + 5.0
    assert up.status().healthy


def test_an_engine_that_does_not_answer_meanwhile_is_asked_again(
    up: ComposeRuntime, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.fails["kill", WORKER] = NO_EVENT
    inspect, asked = up._engine.inspect, []

    def busy(ids: list[str]) -> Any:
        asked.append(docker.clock())
        if len(asked) < 3:
            raise EngineError("the Docker Engine does not answer within 30 s")
        docker.change(ids[0], state="exited", exit_code=137)
        return inspect(ids)

    monkeypatch.setattr(up._engine, "inspect", busy)
    up.kill(WORKER)
    assert len(asked) == 3
