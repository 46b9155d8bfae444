"""Who stops a job ends all that its script has started, in a lab of containers."""

from __future__ import annotations

import pytest

from lab.services import HEAD
from tests.e2e.compose.bench import ContainerBench
from tests.e2e.families import FamilyTests
from tests.e2e.harness import Shell

LIVING = (
    "import psutil, sys\n"
    "print(*(p.pid for p in psutil.process_iter(['status']) if p.info['status'] != psutil.STATUS_ZOMBIE))"
)


class TestFamilies(FamilyTests):
    @pytest.fixture
    def shell(self, box: ContainerBench) -> ContainerBench:
        return box

    def living(self, shell: Shell, pids: list[int]) -> set[int]:
        assert isinstance(shell, ContainerBench)
        return {int(pid) for pid in shell.exec(HEAD, "python", "-c", LIVING).split()} & set(pids)
