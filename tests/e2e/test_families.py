"""Who stops a job ends all that its script has started, in a lab of plain processes."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.families import FamilyTests
from tests.e2e.harness import Shell


class TestFamilies(FamilyTests):
    def python(self, shell: Shell, code: str) -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
