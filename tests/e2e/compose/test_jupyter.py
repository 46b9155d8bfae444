"""JupyterLab of a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.jupyter import JupyterTests


class TestJupyter(JupyterTests):
    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box
