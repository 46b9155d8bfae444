"""`status` reports whatever it finds, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import RefusedError, ServiceError, UnsupportedError
from lab.runtime.health import World
from lab.runtime.local import state
from lab.runtime.local.runtime import LocalRuntime
from lab.runtime.local.services import FORKS
from lab.services import HEAD, JUPYTER, QUEUE, STORE, worker
from lab.topology import State
from tests.unit.runtime.local.machine import SPEC, Machine


@pytest.fixture
def runtime(machine: Machine, tmp_path: Path) -> LocalRuntime:
    machine.runtime(tmp_path).up(SPEC)
    return machine.runtime(tmp_path)


@pytest.mark.parametrize("name", ["s3.json", "ray.token", "jupyter.token"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", None])
def test_a_secret_that_cannot_be_read_is_a_note(
    runtime: LocalRuntime, tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = tmp_path / "raylab" / "secrets" / name
    path.unlink() if content is None else path.write_bytes(content)

    status = runtime.status()

    assert status.up
    assert not status.healthy
    assert "secret" in status.notes[-1]
    assert "labctl down" in status.notes[-1]
    states = {s.service: s.state for s in status.services}
    assert states == {
        STORE: State.HEALTHY,
        QUEUE: State.HEALTHY,
        **dict.fromkeys((JUPYTER, HEAD, worker(0), worker(1)), State.RUNNING),
    }
    assert path.exists() is (content is not None), "status made a secret that opens nothing"


def test_what_died_or_froze_is_seen_without_secrets(
    machine: Machine, runtime: LocalRuntime, tmp_path: Path
) -> None:
    runtime.pause(worker(1))
    machine.die(worker(0))
    (tmp_path / "raylab" / "secrets" / "s3.json").write_text("{")

    states = {s.service: s.state for s in runtime.status().services}

    assert (states[worker(0)], states[worker(1)]) == (State.EXITED, State.PAUSED)


def test_a_folder_of_secrets_that_may_not_be_entered_is_a_note(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = Path.exists

    def refused(path: Path) -> bool:  # as for a user who is not root
        if path.parent.name == "secrets":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", refused)
        status = runtime.status()

    assert "cannot look into" in status.notes[-1]


def test_up_and_endpoints_say_what_to_do_and_down_still_works(
    machine: Machine, runtime: LocalRuntime, tmp_path: Path
) -> None:
    before = dict(machine.running)
    path = tmp_path / "raylab" / "secrets" / "ray.token"
    path.unlink()

    for call in (lambda: runtime.up(SPEC), runtime.endpoints):
        with pytest.raises(ServiceError, match=r"ray\.token is missing") as caught:
            call()
        assert "labctl down" in caught.value.hint
    assert machine.running == before

    runtime.down()
    assert runtime.up(SPEC).healthy


def test_a_service_can_be_frozen_stopped_and_read_without_secrets(
    runtime: LocalRuntime, tmp_path: Path
) -> None:
    (tmp_path / "raylab" / "secrets" / "s3.json").write_text("{")

    runtime.pause(worker(0))
    runtime.resume(worker(0))
    runtime.stop(worker(0))

    assert list(runtime.logs(worker(1), tail=1)) == ["ray-worker-1 says hello"]


def test_the_time_of_the_spawn_is_what_a_nodes_start_is_compared_with(
    machine: Machine, runtime: LocalRuntime
) -> None:
    current = state.load(runtime._folder)
    assert current is not None
    services = {name: identity for name, identity in current.leaders.items() if name != FORKS}
    assert services
    for name, identity in services.items():
        assert current.seen(name, World()).since == identity.spawned_at


def test_a_port_that_is_not_the_labs_is_refused_with_the_one_in_use(
    machine: Machine, runtime: LocalRuntime
) -> None:
    from dataclasses import replace

    before = dict(machine.running)
    with pytest.raises(RefusedError, match="port 8265, not on 9999") as caught:
        runtime.up(replace(SPEC, ports=(("dashboard", 9999),)))
    assert "--port dashboard=9999" in caught.value.hint
    assert machine.running == before


def test_a_port_that_the_lab_has_is_no_other_lab(machine: Machine, runtime: LocalRuntime) -> None:
    from dataclasses import replace

    before = dict(machine.running)

    assert runtime.up(replace(SPEC, ports=(("dashboard", 8265), ("s3", 9000)))).healthy
    assert machine.running == before


def test_a_port_of_what_the_lab_does_not_run_is_refused(runtime: LocalRuntime) -> None:
    from dataclasses import replace

    with pytest.raises(UnsupportedError, match="runs no grafana"):
        runtime.up(replace(SPEC, ports=(("grafana", 3000),)))
