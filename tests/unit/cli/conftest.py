"""What the tests of the command line share."""

from __future__ import annotations

import pytest

from tests.unit.cli.fakes import Labctl


@pytest.fixture
def labctl() -> Labctl:
    """labctl on a lab that is up."""
    return Labctl()
