"""The course's own repositories, unchanged, as its pages have students type it all, in a lab of processes.

Their scripts are no part of this project. RAYLAB_COURSE names a folder that has them:

    git clone https://github.com/teaching-on-testbeds/mltrain-chi
    git clone --bare https://github.com/teaching-on-testbeds/gourmetgram-train
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import NEEDS_COURSE
from tests.e2e.food11 import pictures
from tests.e2e.harness import PATIENCE, ROOT, UP, Bench
from tests.e2e.jupyter import Jupyter
from tests.e2e.receipts import assert_recovered

VARIABLE = "RAYLAB_COURSE"
SUBMIT = "ray job submit --runtime-env runtime.json  --working-dir .  -- python gourmetgram-train/train.py"
ON_A_GPU = SUBMIT.replace(
    " --working-dir", "--entrypoint-num-gpus 1 --entrypoint-num-cpus 8 --verbose  --working-dir"
)
ONE, TWO = (
    f'ScalingConfig(num_workers={workers}, use_gpu=True, resources_per_worker={{"GPU": 1, "CPU": 8}})'
    for workers in (1, 2)
)
TRIALS, TRIAL_EPOCHS = 16, 20
"""Those of the branch `tune`, and what each of them may train at most."""

PICTURES = 1
"""Of each class. A rank needs 2.3 GB for 44 of them at once on a CPU, and the search has two ranks."""

TRAINING_SECONDS = 12 * PATIENCE
"""Six epochs of MobileNetV2 on a CPU, after packages of 10 MB: 3 minutes, 18 at a load of 100."""

SEARCH_SECONDS = 40 * PATIENCE
"""Sixteen such trainings, two at once: 17 minutes on two idle cores."""

WEIGHTS = """\
import pathlib, torch, torchvision
models = torchvision.models
name = models.MobileNet_V2_Weights.DEFAULT.url.split("/")[-1]
file = pathlib.Path(torch.hub.get_dir(), "checkpoints", name)
file.parent.mkdir(parents=True, exist_ok=True)
if not file.exists():
    torch.save(models.mobilenet_v2(weights=None).state_dict(), file)
print("torchvision", torchvision.__version__, torchvision.__file__)
"""
"""A script that makes the file for which torch.hub would ask the internet, with weights of no training."""


class CourseBench(Bench):
    """A lab whose jobs find the weights of torch.hub in its home, not in the user's."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "TORCH_HOME": str(self.home / "torch")}


@dataclass(frozen=True)
class Student:
    """A student at a terminal of JupyterLab, in a folder that stands for `~/work`."""

    lab: CourseBench
    folder: Path

    def types(self, *lines: str, timeout: float = PATIENCE) -> str:
        """Type lines, each of which must succeed, and read to their end; everything that was said."""
        line = " && ".join((f"cd {self.folder.name}", *lines))
        said = Jupyter.of(self.lab).terminal(f'{line}; echo "$?:""ended"', ":ended", timeout)
        assert re.search(r"(?<!\d)0:ended", said), said[-3000:]  # a code of a colour may end before it
        return said

    def switches_to(self, branch: str) -> None:
        """Type what the page says before a new branch; the edits of the last one are stashed."""
        self.types("cd gourmetgram-train", "git stash", "git fetch --all", f"git switch {branch}")

    def submits(self, command: str = SUBMIT) -> str:
        """Type the page's command, and leave it when the job has its id, which is returned."""
        line = f"cd {self.folder.name} && {command}"
        said = Jupyter.of(self.lab).terminal(line, "submitted successfully", PATIENCE)
        return str(re.findall(r"raysubmit_\w+", said)[-1])

    def trains(self, command: str = SUBMIT, timeout: float = TRAINING_SECONDS) -> str:
        """Type the page's command and wait for its end; the id of the job, which must have succeeded."""
        said = self.types(command, timeout=timeout)
        assert "succeeded" in said, said[-3000:]
        return str(re.findall(r"raysubmit_\w+", said)[-1])


@pytest.fixture(scope="module")
def repositories() -> Path:
    """The folder of the course's repositories."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{NEEDS_COURSE}{VARIABLE} names no folder with its repositories")
    return Path(folder)


@pytest.fixture(scope="module")
def student(repositories: Path, home: Path) -> Iterator[Student]:
    """A student in a lab and a home of her own, with the course's files as the course's pages put them."""
    home = home / "course"
    home.mkdir()
    lab = CourseBench(home, "course")
    folder = ROOT / "workspace" / f"course-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as ending:
        ending.callback(lab.remove)
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        lab.labctl(*UP)
        pictures(lab, PICTURES)
        shutil.copytree(repositories / "mltrain-chi" / "workspace_ray", folder)
        who = Student(lab, folder)
        (folder / "weights.py").write_text(WEIGHTS)
        said = who.types(SUBMIT.replace("gourmetgram-train/train.py", "weights.py"), timeout=TRAINING_SECONDS)
        assert "/virtualenv/" in said.partition("torchvision ")[2], "torchvision is not the job's own"
        assert list((home / "torch" / "hub" / "checkpoints").iterdir())
        who.types(f"git clone --branch lightning {repositories / 'gourmetgram-train.git'}")
        yield who


@pytest.mark.rare
class TestCourseRepository:
    def test_the_script_that_knows_nothing_of_ray(self, student: Student) -> None:
        job = student.trains(ON_A_GPU)
        assert "test_accuracy" in student.lab.lab.jobs.logs(job)

    def test_a_line_of_git_in_the_wrong_folder_finds_no_repository(self, student: Student) -> None:
        said = Jupyter.of(student.lab).terminal(
            "cd ~/no/such/folder; git status --short; echo 'exit code: '$?", "exit code: 128"
        )
        assert "not a git repository" in said

    def test_ray_train_on_one_worker_and_then_on_two(self, student: Student) -> None:
        student.switches_to("ray")
        script = student.folder / "gourmetgram-train" / "train.py"
        text = script.read_text()
        assert text.count(ONE) == 1
        for workers, changed in ((1, text), (2, text.replace(ONE, TWO))):
            script.write_text(changed)
            (run,) = student.lab.lab.history(student.trains()).runs
            (attempt,) = run.attempts
            assert len(set(attempt.nodes.values())) == workers
            assert len(run.checkpoints) == len([report for report in attempt.reports if report.checkpoint])
            assert len(run.checkpoints) > 2

    def test_fault_tolerance_goes_on_where_the_other_worker_was_stopped(self, student: Student) -> None:
        student.switches_to("fault_tolerance")
        job = student.submits()
        fault = ("fault-inject", "--fault", "stop", "--job", job, "--after-epoch", "2", "--json")
        assert_recovered(student.lab.labctl(*fault, timeout=TRAINING_SECONDS).document)

    def test_tune_searches_to_its_end_two_trials_at_once(self, student: Student) -> None:
        student.lab.labctl("down", timeout=PATIENCE)
        student.lab.labctl(*UP, "--workers", "1", timeout=PATIENCE)
        student.switches_to("tune")
        job = student.trains(timeout=SEARCH_SECONDS)
        runs = student.lab.lab.history(job).runs
        assert len({run.name for run in runs}) == TRIALS
        epochs = sorted(len(run.checkpoints) for run in runs)
        assert epochs[0] > 0, "a trial never reported"
        assert epochs[-1] < TRIAL_EPOCHS, "a trial went on although it learned nothing from so few pictures"
        assert "errored after" not in student.lab.lab.jobs.logs(job), "a trial failed"
