from __future__ import annotations

import pytest

from tests.fakes import FakeRuntime
from tests.unit.faults import ranks


@pytest.fixture
def runtime() -> FakeRuntime:
    return ranks.up()
