"""An installed labctl: which environment it runs in, and where the packages of its labs go."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lab.errors import SetupError
from lab.host import environment
from lab.host.environment import ElsewhereError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of an installed labctl whose environment has the packages of the command line."""
    package = tmp_path / "site-packages" / "raylab_labctl"
    (package / "requirements").mkdir(parents=True)
    (package / "__init__.py").touch()
    for group in ("installer", *environment.BUILDS_ON):
        (package / "requirements" / f"{group}.txt").write_text(f"{group}==1\n")
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(environment.NO_VENV, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    environment.pinned_as.cache_clear()
    return str(package)


def test_a_checkout_keeps_its_environment_beside_labctl(tmp_path: Path) -> None:
    assert environment.venv_of(str(tmp_path)) == str(tmp_path / ".venv")


def test_an_installed_labctl_keeps_it_below_its_home(root: str, tmp_path: Path) -> None:
    folder = Path(environment.venv_of(root))
    assert folder.parent == tmp_path / "home" / environment.ENVIRONMENTS
    assert folder.name.startswith("python{}.{}-".format(*sys.version_info))


def test_versions_that_pin_the_same_share_it_and_others_do_not(root: str) -> None:
    folder = environment.venv_of(root)
    environment.pinned_as.cache_clear()
    assert environment.venv_of(root) == folder
    Path(root, "requirements", "local.txt").write_text("local==2\n")
    environment.pinned_as.cache_clear()
    assert environment.venv_of(root) != folder


def test_the_command_line_runs_where_it_was_installed(root: str, tmp_path: Path) -> None:
    assert environment.interpreter(root=root) is None
    assert environment.ensure("cli", root=root) is False
    assert not (tmp_path / "home").exists()


def test_packages_of_a_lab_are_not_taken_from_there_whatever_it_has(root: str) -> None:
    assert not environment.installed("local", root=root)
    with pytest.raises(ElsewhereError) as caught:
        environment.ensure("local", root=root)
    assert caught.value.group == "local"
    assert environment.python_of(root) in caught.value.hint


def test_with_no_venv_they_are(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.NO_VENV, "1")
    assert environment.installed("local", root=root)
    assert environment.ensure("local", root=root) is False


def test_a_command_goes_on_in_the_environment_that_was_made(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    monkeypatch.setattr("lab.host.environment.setup.install", lambda *asked: done.append(asked))

    def hand_over(python: str, argv: list[str]) -> int:
        done.append((python, argv))
        return 7

    monkeypatch.setattr(environment, "hand_over", hand_over)
    assert environment.go_on("local", ["demo", "--json"], root=root) == 7
    entry = os.path.join(root, "labctl.py")
    assert done == [(root, "local", None), (environment.python_of(root), [entry, "demo", "--json"])]


def test_a_package_that_is_not_whole_is_to_be_installed_again(root: str) -> None:
    os.unlink(os.path.join(root, "requirements", "local.txt"))
    with pytest.raises(SetupError) as caught:
        environment.venv_of(root)
    assert caught.value.hint == "install labctl again"
