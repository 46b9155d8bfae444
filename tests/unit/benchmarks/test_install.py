"""Variables and packages of a fresh machine, as the benchmarks `install` and `demo` have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.install import IMPORT, environment_of
from lab.host.environment import ensure


def test_a_fresh_machine_has_an_empty_home_no_caches_and_no_lab(tmp_path: Path) -> None:
    here = {
        "HOME": str(tmp_path),
        "PATH": "/bin",
        "PIP_FIND_LINKS": "/wheels",
        "PIP_CACHE_DIR": "/cache",
        "LABCTL_NO_VENV": "1",
        "RAYLAB_HOME": "/labs",
        "VIRTUAL_ENV": "/venv",
        "XDG_CACHE_HOME": "/cache",
    }
    fresh = tmp_path / "fresh"
    assert environment_of(fresh, here) == {"HOME": str(fresh), "PATH": "/bin", "PIP_FIND_LINKS": "/wheels"}


def test_where_packages_come_from_is_as_it_is_here(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True)
    config.touch()
    here = {"HOME": str(tmp_path)}
    assert environment_of(Path("/fresh"), here)["PIP_CONFIG_FILE"] == str(config)
    assert environment_of(Path("/fresh"), {**here, "PIP_CONFIG_FILE": "/own"})["PIP_CONFIG_FILE"] == "/own"


def test_what_installs_packages_is_found_where_this_checkout_has_it() -> None:
    names: dict[str, Any] = {}
    exec(IMPORT, names)
    assert names["environment"].ensure is ensure
