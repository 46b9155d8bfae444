"""Which processes ask for a fork as they begin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from forkserver import launcher, scripts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.touch()
    return str(path)


def test_a_script_does(script: str) -> None:
    for arguments in (["python", script], ["python", "-u", script, "--epochs", "5"]):
        assert scripts.wanted(arguments, "/venv")


@pytest.mark.parametrize(
    "arguments",
    [
        ["python"],
        ["python", "-c", "pass"],
        ["python", "-m", "pip"],
        ["python", "-i", "SCRIPT"],
        ["python", "none.py"],
    ],
)
def test_nothing_else_does(script: str, arguments: list[str]) -> None:
    given = [script if word == "SCRIPT" else word for word in arguments]
    assert not scripts.wanted(given, "/venv")


def test_a_tool_of_the_environment_does_not(script: str) -> None:
    assert not scripts.wanted(["python", script], str(Path(script).parent))


def test_without_a_server_a_process_goes_on_as_it_is(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", script])
    monkeypatch.setattr("os.isatty", lambda number: False)
    scripts.hand_over(str(tmp_path / "nobody"))


def test_it_asks_for_a_fork_with_torch_and_then_for_one_with_ray(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(sys, "orig_argv", ["python", script])
    monkeypatch.setattr("os.isatty", lambda number: False)
    monkeypatch.setattr(launcher, "first", lambda folder, levels, request: asked.append((folder, *levels)))
    scripts.hand_over("/forks")
    assert asked == [("/forks", "train", "node")]


def test_who_has_too_much_open_is_not_forked() -> None:
    with pytest.raises(launcher.RefusedError, match="201 open"):
        launcher.ask("/forks", "train", {}, range(201))
