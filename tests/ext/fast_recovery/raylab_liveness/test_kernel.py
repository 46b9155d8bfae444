"""The witness that looks at processes: a folder that looks as /proc does."""

from __future__ import annotations

from pathlib import Path

import pytest

from raylab_liveness.kernel import FIND_SECONDS, TRIES, Kernel
from raylab_liveness.model import Kind, Node, Sign

ONE, HEAD = Node(b"\x01\x02", "ray-worker-0", "127.0.0.1:1"), Node(b"\x03", "ray-head", "127.0.0.1:2", True)


def process(
    proc: Path, pid: int, node: str, *, state: str = "S", name: str = "raylet", started: int = 7
) -> None:
    """A process as the kernel shows it."""
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "cmdline").write_bytes(f"/ray/raylet\0--node_id={node}\0--x=1\0".encode())
    others = " ".join(["0"] * 18)
    (folder / "stat").write_text(f"{pid} ({name} (x)) {state} {others} {started} 0 0")


def kinds(signs: object) -> list[Kind]:
    assert isinstance(signs, list)
    assert all(isinstance(sign, Sign) and sign.node_id == ONE.node_id for sign in signs)
    return [sign.kind for sign in signs]


@pytest.mark.parametrize(
    ("state", "kind"),
    [("T", Kind.STOPPED), *((state, Kind.RUNNING) for state in "RSD"),
     *((state, Kind.UNKNOWN) for state in "tZX")],
)  # fmt: skip
def test_it_says_whether_a_raylet_was_stopped_runs_or_has_ended(
    tmp_path: Path, state: str, kind: Kind
) -> None:
    kernel = Kernel(str(tmp_path))
    process(tmp_path, 11, "0102")
    process(tmp_path, 12, "03", state="T")
    assert kinds(kernel.look([ONE, HEAD], 0.0)) == [Kind.RUNNING]
    process(tmp_path, 11, "0102", state=state)
    assert kinds(kernel.look([ONE, HEAD], 0.1)) == [kind]
    process(tmp_path, 11, "0102", state="R")
    assert kinds(kernel.look([ONE, HEAD], 0.2)) == [Kind.RUNNING]


@pytest.mark.parametrize(("node", "name"), [("0103", "raylet"), ("0102", "python")])
def test_another_node_and_another_process_say_nothing(tmp_path: Path, node: str, name: str) -> None:
    process(tmp_path, 11, node, name=name, state="T")
    assert kinds(Kernel(str(tmp_path)).look([ONE], 0.0)) == []


def test_a_process_that_has_the_id_of_an_ended_raylet_is_not_it(tmp_path: Path) -> None:
    kernel = Kernel(str(tmp_path))
    process(tmp_path, 11, "0102")
    kernel.look([ONE], 0.0)
    process(tmp_path, 11, "0102", state="T", started=8)
    assert kinds(kernel.look([ONE], 0.1)) == [Kind.UNKNOWN]


def test_a_raylet_is_looked_for_some_times_and_no_more(tmp_path: Path) -> None:
    kernel, now = Kernel(str(tmp_path)), 0.0
    for _ in range(TRIES):
        assert kinds(kernel.look([ONE], now)) == []
        now += FIND_SECONDS
    process(tmp_path, 11, "0102", state="T")
    assert kinds(kernel.look([ONE], now)) == []


def test_a_raylet_that_comes_later_is_found(tmp_path: Path) -> None:
    kernel = Kernel(str(tmp_path))
    assert kinds(kernel.look([ONE], 0.0)) == []
    process(tmp_path, 11, "0102", state="T")
    assert kinds(kernel.look([ONE], 0.1)) == []
    assert kinds(kernel.look([ONE], FIND_SECONDS)) == [Kind.STOPPED]


def test_where_the_kernel_shows_no_processes_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert kinds(Kernel(str(tmp_path / "none")).look([ONE], 0.0)) == []
