"""Shared by the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.fakes import Labctl


@pytest.fixture
def labctl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Labctl:
    """labctl on a lab that is up."""
    return Labctl(monkeypatch, tmp_path / "labs")
