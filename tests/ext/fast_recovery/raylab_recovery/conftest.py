"""The patches fit, as who starts a node has found out: no test of one looks at the Ray that is installed."""

from __future__ import annotations

import pytest

from raylab_switches import UNFIT


@pytest.fixture(autouse=True)
def every_patch_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNFIT, "")
