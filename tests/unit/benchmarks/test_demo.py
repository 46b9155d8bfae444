"""Variables of a fresh machine, as the benchmark `demo` has it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.demo import environment_of


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
