from __future__ import annotations

import pytest

from lab.runtime.fake import FakeRuntime
from tests.unit.faults import ranks


@pytest.fixture
def runtime() -> FakeRuntime:
    return ranks.up()
