"""Who stops a job ends all that its script has started, in a lab of containers."""

from __future__ import annotations

from lab.services import HEAD
from tests.e2e.compose.bench import ContainerBench
from tests.e2e.families import FamilyTests
from tests.e2e.harness import Shell


class TestFamilies(FamilyTests):
    def python(self, shell: Shell, code: str) -> str:
        assert isinstance(shell, ContainerBench)
        return shell.exec(HEAD, "python", "-c", code)
