"""What labctl has written, found by what it put there, and removed without what is a person's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.errors import EngineError, RefusedError
from lab.flows.traces import Places, remove_traces, traces
from lab.host.environment import ENVIRONMENTS
from lab.host.environment.venv import LOCK
from lab.host.workspace import bring
from lab.lab import Lab
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.local.runtime import LocalRuntime
from lab.runtime.statefile import COMPOSE_FILE


class Machine:
    """A home with one lab, one environment, a workspace and a folder that labctl did not make."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.files("lab/lock", b"4711 starting lab lab")
        self.files("lab/objects/checkpoint", b"x" * 100)
        self.files(f"{ENVIRONMENTS}/python3.11-0123/{LOCK}", b"")
        self.files("photos/lock", b"not of labctl")
        source = folder / "package"
        source.mkdir()
        (source / "train.py").write_text("train")
        bring(source, self.home / "workspace")
        self.shared = folder / "tmp" / "raylab-0"
        (self.shared / "empty").mkdir(parents=True)
        self.down: list[tuple[str, str]] = []
        self.up = False
        self.images = ["raylab/ray:1"]
        self.in_use = False
        self.places = Places(
            home=self.home,
            root=folder / "checkout",
            programs=folder / "cache" / "raylab",
            shared=(self.shared,),
            engine=cast("DockerEngine", SimpleNamespace(ask=self.ask, check_engine=lambda: None)),
            opener=self.open,
        )

    def files(self, name: str, data: bytes) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def open(self, runtime: str, name: str) -> Lab:
        def down(**_: Any) -> None:
            self.down.append((runtime, name))

        status, host = SimpleNamespace(up=self.up), LocalRuntime(name, self.home / name)
        return cast("Lab", SimpleNamespace(status=lambda: status, down=down, runtime=host))

    def ask(self, *words: str) -> str:
        if words[:2] == ("image", "rm"):
            if self.in_use:
                raise EngineError("it is in use")
            self.images.remove(words[2])
        return "\n".join(["5590"] * len(self.images) if words[1] == "inspect" else self.images)

    def places_of(self) -> dict[str, bool]:
        """Last part of each place -> whether it is a person's."""
        return {Path(trace.place).name: trace.yours for trace in traces(self.places)}

    def remove(self, *, yours: bool = False) -> list[str]:
        gone = remove_traces(traces(self.places), self.places, yours=yours, say=lambda _: None)
        return [Path(trace.place).name for trace in gone]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_everything_is_listed_and_what_labctl_did_not_write_is_not(machine: Machine) -> None:
    assert machine.places_of() == {
        "lab": True,
        "workspace": False,
        "raylab-0": False,
        "ray:1": False,
        "python3.11-0123": False,
    }


def test_a_workspace_that_somebody_changed_is_theirs(machine: Machine) -> None:
    machine.files("workspace/own.ipynb", b"mine")
    assert machine.places_of()["workspace"] is True


def test_what_is_a_persons_stays(machine: Machine) -> None:
    machine.files("workspace/own.ipynb", b"mine")
    assert machine.remove() == ["raylab-0", "ray:1", "python3.11-0123"]
    assert (machine.home / "lab" / "objects" / "checkpoint").exists()
    assert (machine.home / "workspace" / "own.ipynb").exists()
    assert machine.down == []
    assert not (machine.home / ENVIRONMENTS).exists()


def test_the_locks_of_a_home_go_with_the_last_trace(machine: Machine) -> None:
    machine.files("ports.lock", b"4711 choosing ports")
    machine.files(".data.lock", b"")
    machine.remove()
    assert (machine.home / "ports.lock").exists(), "a lab is left"
    machine.remove(yours=True)
    assert [path.name for path in machine.home.iterdir()] == ["photos"]


def test_with_what_is_a_persons_each_lab_is_taken_down_first(machine: Machine) -> None:
    machine.remove(yours=True)
    assert machine.down == [("local", "lab"), ("compose", "lab")]
    assert [path.name for path in machine.home.iterdir()] == ["photos"]


def test_while_a_lab_is_up_nothing_is_removed(machine: Machine) -> None:
    machine.up = True
    with pytest.raises(RefusedError) as caught:
        machine.remove(yours=True)
    assert caught.value.hint == "stop it: labctl down --lab lab"
    assert len(machine.places_of()) == 5


def test_where_a_down_would_be_refused_nothing_is_removed(machine: Machine) -> None:
    machine.files("other/lock", b"4711 starting lab other")
    machine.files(f"other/{COMPOSE_FILE}", b"{}")
    with pytest.raises(RefusedError, match="lab other was started"):
        machine.remove(yours=True)
    assert (machine.home / "lab" / "objects" / "checkpoint").exists()
    assert machine.down == []
    assert machine.remove() == ["workspace", "raylab-0", "ray:1", "python3.11-0123"], "labs stay"


def test_what_other_labs_use_stays(machine: Machine) -> None:
    empty = machine.shared / "ab12" / "session" / "runtime_resources"
    empty.mkdir(parents=True)
    (machine.shared / "ab12" / "session" / "socket").touch()
    machine.in_use = True
    assert machine.remove() == ["workspace", "python3.11-0123"]
    assert (machine.shared / "ab12" / "session" / "socket").exists()
    assert empty.is_dir()


def test_an_environment_is_removed_last_because_labctl_may_run_in_it(machine: Machine) -> None:
    assert machine.remove(yours=True)[-1] == "python3.11-0123"


def test_an_image_is_as_large_as_its_engine_says(machine: Machine) -> None:
    assert [trace.size for trace in traces(machine.places) if trace.image] == [5590]
    machine.images = []
    assert not [trace for trace in traces(machine.places) if trace.image]
