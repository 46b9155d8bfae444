"""Fixtures of the core's tests that those of extensions share."""

from tests.unit.cli.conftest import labctl  # noqa: F401
from tests.unit.faults.test_own import drop  # noqa: F401
from tests.unit.flows.conftest import world  # noqa: F401
