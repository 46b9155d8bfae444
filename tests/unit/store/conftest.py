from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.store.s3_wsgi import Server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    server = Server(root)
    yield server
    server.die()
