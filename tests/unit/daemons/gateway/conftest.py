from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.daemons.gateway.classes import Class


@pytest.fixture
def school(tmp_path: Path) -> Iterator[Class]:
    made = Class(tmp_path)
    yield made
    made.world.close()
