"""JupyterLab of a lab of plain processes."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Bench
from tests.e2e.jupyter import JupyterTests


class TestJupyter(JupyterTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench
