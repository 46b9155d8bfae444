"""Scripts of the course, as a student has them, in any lab: the same tests for every runtime."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterator

import pytest

from lab.evidence.ledger import number
from tests.e2e.food11 import pictures
from tests.e2e.harness import PATIENCE, ROOT, SCRIPTS, Shell
from tests.e2e.jupyter import Jupyter

COURSE = SCRIPTS / "course"

AS_GIVEN = 'ScalingConfig(num_workers=2, use_gpu=True, resources_per_worker={"GPU": 1, "CPU": 8})'
"""The line that the course has students type for two workers."""


@contextlib.contextmanager
def in_jupyter() -> Iterator[str]:
    """The student's folder in JupyterLab's workspace, for a while; its name."""
    name = f"course-{uuid.uuid4().hex[:8]}"
    folder = ROOT / "workspace" / name
    shutil.copytree(COURSE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    try:
        yield name
    finally:
        shutil.rmtree(folder)


class CourseTests:
    """What the course's scripts must do in any lab. `shell` is a lab with simulated GPUs."""

    def test_a_ray_train_script_of_the_course_trains_as_it_is(self, shell: Shell) -> None:
        assert (COURSE / "train_ray.py").read_text().count(AS_GIVEN) == 1
        argv = ("submit", "--detach", "--json", "--", "python", "train_ray.py")
        job = str(shell.labctl(*argv, cwd=COURSE).document["submission_id"])
        shell.succeeds(job, 2 * PATIENCE)
        (run,) = shell.lab.history(job).runs
        assert run.plan is not None
        assert (run.plan.num_workers, run.plan.resources_per_worker["GPU"]) == (2, 1)
        assert len(set(run.attempts[0].nodes.values())) == 2
        assert run.last is not None
        assert run.last.progress == 7
        assert (number(run.last.metrics["val_accuracy"]) or 0) > 0.8
        assert len(run.checkpoints) == 8

    @pytest.mark.long
    def test_the_courses_own_command_trains_in_a_terminal_of_jupyter(self, shell: Shell) -> None:
        submit = (
            "ray job submit --runtime-env runtime.json --entrypoint-num-gpus 1 --entrypoint-num-cpus 8"
            " --verbose --working-dir . -- python train.py"
        )
        drawn = pictures(shell)
        with in_jupyter() as folder:
            line = f"cd {folder} && {submit}; echo 'exit code: '$?"
            said = Jupyter.of(shell).terminal(line, "exit code: 0", 2 * PATIENCE)
        assert "finished after epoch 3" in said
        assert said.count("GPUs of this lab are simulated") == 1
        # runtime.json says /mnt/Food-11; where there is none, it means the folder that the lab has.
        assert f"data: {drawn if shell.kind == 'local' else '/mnt/Food-11'}" in said
