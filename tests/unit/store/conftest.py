from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.store.s3_wsgi import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "objects")
    yield server
    server.die()
