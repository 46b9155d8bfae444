from __future__ import annotations

import pytest

from tests.unit.runtime.local.machine import Machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which nothing runs, in place of this one."""
    machine = Machine()
    machine.install(monkeypatch)
    return machine
