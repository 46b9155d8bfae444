from __future__ import annotations

from pathlib import Path

import pytest

from lab.runtime.compose import boot
from lab.runtime.compose.runtime import ComposeRuntime
from tests.unit.runtime.compose.fake_docker import FakeDocker, spec


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """An engine in memory."""
    monkeypatch.setattr(boot, "POLL_SECONDS", 4.0)  # its clock costs nothing, hundreds of looks would
    return FakeDocker()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a lab keeps its files."""
    return tmp_path / "home" / "lab"


@pytest.fixture
def runtime(docker: FakeDocker, folder: Path) -> ComposeRuntime:
    """A lab that is not up yet."""
    return docker.runtime(folder)


@pytest.fixture
def up(runtime: ComposeRuntime, docker: FakeDocker) -> ComposeRuntime:
    """A lab that is up; nothing was done to it since."""
    runtime.up(spec())
    docker.journal.clear()
    return runtime
