"""Who stops a job ends all that its script has started, in a lab of plain processes."""

from __future__ import annotations

import psutil
import pytest

from tests.e2e.families import FamilyTests
from tests.e2e.harness import Bench, Shell


class TestFamilies(FamilyTests):
    @pytest.fixture
    def shell(self, bench: Bench) -> Bench:
        return bench

    def living(self, shell: Shell, pids: list[int]) -> set[int]:
        return {pid for pid in pids if lives(pid)}


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
