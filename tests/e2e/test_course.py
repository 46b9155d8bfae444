"""Scripts of the course in a lab of plain processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.e2e.course import COURSE, CourseTests
from tests.e2e.harness import PATIENCE, Bench
from tests.e2e.receipts import assert_recovered

ADDED = "cowsay==6.1"
"""A package of 26 kB that needs no other and that no lab has."""


class TestCourse(CourseTests):
    @pytest.mark.long  # foreign scripts that resume are in test_scripts.py
    def test_a_script_of_the_course_resumes_on_the_other_worker(self, bench: Bench, tmp_path: Path) -> None:
        script = (COURSE / "train_ray.py").read_text()
        for old, new in (("num_workers=2", "num_workers=1"), ('"total_epochs": 8', '"total_epochs": 40')):
            assert script.count(old) == 1
            script = script.replace(old, new)
        (tmp_path / "train_ray.py").write_text(script)
        argv = ("submit", "--detach", "--json", "--", "python", "train_ray.py")
        job = str(bench.labctl(*argv, cwd=tmp_path).document["submission_id"])
        target = bench.where(job)
        fault = ("fault-inject", target, "--job", job, "--after-epoch", "2", "--json")
        receipt = bench.labctl(*fault, timeout=2 * PATIENCE).document
        assert_recovered(receipt)
        first, second = receipt["attempts"][0], receipt["attempts"][-1]
        assert set(first["nodes"]) != set(second["nodes"])
        assert second["last_epoch"] == 39

    @pytest.mark.long
    def test_a_script_of_the_course_that_stops_early_after_a_fault_has_recovered(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        script = (COURSE / "train_ray.py").read_text()
        for old, new in (
            ("num_workers=2", "num_workers=1"),
            ('"total_epochs": 8', '"total_epochs": 60'),
            ('patience=3, mode="min"', 'patience=40, min_delta=1e9, mode="min"'),
        ):
            assert script.count(old) == 1
            script = script.replace(old, new)
        (tmp_path / "train_ray.py").write_text(script)
        argv = ("submit", "--detach", "--json", "--", "python", "train_ray.py")
        job = str(bench.labctl(*argv, cwd=tmp_path).document["submission_id"])
        fault = ("fault-inject", bench.where(job), "--job", job, "--after-epoch", "1", "--json")
        receipt = bench.labctl(*fault, timeout=2 * PATIENCE).document
        assert_recovered(receipt)
        assert "ended by itself at epoch" in receipt["checks"][0]["detail"]
        assert "of 60, counted from 0): Lightning stopped early" in receipt["checks"][0]["detail"]

    @pytest.mark.rare
    def test_a_trainer_that_is_handed_to_tune_is_tuned(self, bench: Bench) -> None:
        job = bench.submit("tunes_a_trainer.py")
        bench.succeeds(job, 2 * PATIENCE)
        assert "best 0.1 errors 0" in bench.lab.jobs.logs(job)
        assert len({run.name for run in bench.lab.history(job).runs}) == 2

    @pytest.mark.rare  # it fetches 10 MB
    def test_the_packages_of_the_course_leave_torch_as_it_is(self, bench: Bench, tmp_path: Path) -> None:
        (tmp_path / "uses.py").write_text(
            "import lightning, s3fs, torch, torchvision\n"
            "print('torch', torch.__version__, torch.__file__, 's3fs', s3fs.__version__)\n"
        )
        (tmp_path / "requirements.txt").write_text("torch\ntorchvision\nlightning\nboto3\ns3fs\n")
        (tmp_path / "runtime.json").write_text('{"pip": "requirements.txt"}')
        argv = ("submit", "--detach", "--json", "--runtime-env", "runtime.json", "--", "python", "uses.py")
        job = str(bench.labctl(*argv, cwd=tmp_path).document["submission_id"])
        bench.succeeds(job, 3 * PATIENCE)
        _, version, file, _, s3fs = bench.lab.jobs.logs(job).splitlines()[-1].split()
        assert (version, file) == (torch.__version__, torch.__file__)
        assert int(s3fs.partition(".")[0]) > 2022

    @pytest.mark.long
    def test_what_a_job_asks_pip_for_is_installed_for_it_and_for_no_other(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        (tmp_path / "uses.py").write_text(
            "import cowsay, ray, torch\nprint('uses', cowsay.__file__)\n"
            "ray.init()\nwhere = ray.remote(lambda: cowsay.__file__)\n"
            "both = [where.options(num_gpus=1).remote() for _ in range(2)]\nprint('tasks', ray.get(both))\n"
        )
        environment = tmp_path / "runtime.json"
        environment.write_text(json.dumps({"pip": [ADDED]}))
        argv = ("submit", "--detach", "--json", "--runtime-env", str(environment), "--", "python", "uses.py")
        job = str(bench.labctl(*argv, cwd=tmp_path).document["submission_id"])
        bench.succeeds(job, 2 * PATIENCE)
        assert "virtualenv" in bench.lab.jobs.logs(job).partition("uses ")[2].splitlines()[0]
        other = bench.submit("-c", "import cowsay")
        assert bench.lab.jobs.wait(other, PATIENCE).status == "FAILED"
        assert "No module named 'cowsay'" in bench.lab.jobs.logs(other)
