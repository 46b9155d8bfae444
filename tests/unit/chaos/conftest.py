from __future__ import annotations

from tests.unit.recovery.conftest import world

__all__ = ["world"]
