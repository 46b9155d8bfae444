"""Packages that come and go while a server runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forkserver.installed import Installed


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name in ("one", "one-1.0.dist-info"):
        (tmp_path / name).mkdir()
    (tmp_path / "two.pth").touch()
    return tmp_path


def later(path: Path) -> None:
    """Give a path the time of a change that was made afterwards, whatever the clock of this disk resolves."""
    moment = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(moment, moment))


def test_a_package_that_is_added_or_removed_is_seen(packages: Path) -> None:
    installed = Installed([str(packages), str(packages / "no such folder")])
    assert not installed.changed()
    (packages / "three-2.0.dist-info").mkdir()
    later(packages)
    assert installed.changed()
    (packages / "three-2.0.dist-info").rmdir()
    later(packages)
    assert not installed.changed()
    (packages / "two.pth").unlink()
    later(packages)
    assert installed.changed()


def test_one_that_is_replaced_by_the_same_version_is_seen(packages: Path) -> None:
    installed = Installed([str(packages)])
    later(packages / "one-1.0.dist-info")
    later(packages)
    assert installed.changed()


def test_what_python_compiles_is_no_package(packages: Path) -> None:
    installed = Installed([str(packages)])
    (packages / "__pycache__").mkdir()
    later(packages)
    assert not installed.changed()
    later(packages / "one-1.0.dist-info")  # nobody looks again before the folder itself has changed
    assert not installed.changed()
