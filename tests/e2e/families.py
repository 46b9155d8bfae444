"""Who stops a job ends all that its script has started. `FamilyTests` holds for every runtime."""

from __future__ import annotations

import json

import pytest

from tests.e2e.harness import PATIENCE, Shell
from tests.waiting import eventually

ENDED_SECONDS = 30.0
"""Ray gives the processes of a job 3 s, then it kills them."""


class FamilyTests:
    """Subclasses give `shell`, a lab without a job, and `living`."""

    @pytest.fixture
    def shell(self) -> Shell:
        raise NotImplementedError

    def living(self, shell: Shell, pids: list[int]) -> set[int]:
        """Those of these process ids, as a job on the head sees them, that belong to a living process."""
        raise NotImplementedError

    @pytest.mark.parametrize("off", ["", "forks"])
    def test_stopping_a_job_ends_its_script_and_all_that_this_has_started(
        self, shell: Shell, off: str
    ) -> None:
        variables = {"RAYLAB_PATCHES_OFF": off} if off else {}
        job = shell.submit("family.py", runtime_env={"env_vars": variables})
        family = self.family(shell, job)
        assert self.names(shell, family) == set(family)
        shell.labctl("job", "stop", job)
        eventually(lambda: gone(self.names(shell, family)), ENDED_SECONDS, "all of them have ended")

    def family(self, shell: Shell, job: str) -> dict[str, int]:
        """The process ids that the script prints, by what they are."""

        def printed() -> dict[str, int]:
            lines = [line for line in shell.lab.jobs.logs(job).splitlines() if line.startswith("family ")]
            return dict(json.loads(lines[0].removeprefix("family "))) if lines else {}

        return eventually(printed, PATIENCE, f"{job} has started its children")

    def names(self, shell: Shell, family: dict[str, int]) -> set[str]:
        living = self.living(shell, list(family.values()))
        return {name for name, pid in family.items() if pid in living}


def gone(names: set[str]) -> bool:
    """True for none; raises AssertionError with the names otherwise."""
    assert not names
    return True
