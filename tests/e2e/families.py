"""Who stops a job ends all that its script has started. `FamilyTests` holds for every runtime."""

from __future__ import annotations

import json

import pytest

from tests.e2e.harness import PATIENCE, Shell
from tests.waiting import eventually

LIVING = (
    "import psutil\n"
    "print(*(p.pid for p in psutil.process_iter(['status']) if p.info['status'] != psutil.STATUS_ZOMBIE))"
)
KILL = """
import psutil
for process in psutil.process_iter(["name"]):
    if process.info["name"] == "fork:{pid}":
        process.kill()
        print(process.pid)
"""


class FamilyTests:
    """`shell` is a lab without a job; subclasses give `python`."""

    def python(self, shell: Shell, code: str) -> str:
        """What this code prints where the head's processes are."""
        raise NotImplementedError

    @pytest.mark.parametrize("off", ["", "forks"])
    def test_stopping_a_job_ends_its_script_and_all_that_this_has_started(
        self, shell: Shell, off: str
    ) -> None:
        job, family = self.started(shell, off)
        shell.labctl("jobs", "stop", job)
        self.ends(shell, family)

    def test_killing_the_launcher_of_a_script_ends_it_and_all_that_it_has_started(self, shell: Shell) -> None:
        def killed() -> dict[str, int]:
            job, family = self.started(shell, "")
            launchers = self.python(shell, KILL.format(pid=family["script"])).split()
            if not launchers:  # a busy machine kept the fork server from answering within a second
                shell.labctl("jobs", "stop", job)
            assert launchers, "it was not forked"
            return family

        self.ends(shell, eventually(killed, 2 * PATIENCE, "the script is forked, and its launcher killed"))

    def started(self, shell: Shell, off: str) -> tuple[str, dict[str, int]]:
        """A job, and the process ids that its script prints, by what they are: all of them live."""
        variables = {"RAYLAB_PATCHES_OFF": off} if off else {}
        job = shell.submit("family.py", runtime_env={"env_vars": variables})

        def printed() -> dict[str, int]:
            lines = [line for line in shell.lab.jobs.logs(job).splitlines() if line.startswith("family ")]
            return dict(json.loads(lines[0].removeprefix("family "))) if lines else {}

        family = eventually(printed, PATIENCE, f"{job} has started its children")
        assert self.living(shell, family) == set(family)
        return job, family

    def living(self, shell: Shell, family: dict[str, int]) -> set[str]:
        pids = set(map(int, self.python(shell, LIVING).split()))
        return {name for name, pid in family.items() if pid in pids}

    def ends(self, shell: Shell, family: dict[str, int]) -> None:
        def over() -> bool:
            left = self.living(shell, family)
            assert not left, left
            return True

        eventually(over, PATIENCE, "all of them have ended")
