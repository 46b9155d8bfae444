"""The demo notebooks and the example of docs/python.md on a lab of plain processes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.e2e.demos import InteractiveDemos, run_cells, value
from tests.e2e.harness import PATIENCE, Bench
from tests.e2e.jupyter import Jupyter, Kernel


class TestDemoNotebooks(InteractiveDemos):
    def test_demo_0_looks_at_the_lab_and_is_refused_to_take_it_down(
        self, shell: Bench, jupyter: Jupyter, kernel: Kernel
    ) -> None:
        printed = run_cells(jupyter, kernel, "demo-0-basic-ray")

        assert printed[0] == f"lab {shell.name}\n"
        endpoints = shell.lab.endpoints()
        assert value(kernel, "details.dashboard") == endpoints.dashboard
        assert endpoints.dashboard in printed[4], "the page of details"
        services = [line.split()[0] for line in printed[2].splitlines()]
        assert services == [service.service for service in shell.lab.status().services]
        assert f"labctl down --lab {shell.name}" in printed[-1]
        assert shell.healthy()

    @pytest.mark.rare
    def test_demo_1_submits_with_the_lab_and_with_rays_client(
        self, shell: Bench, jupyter: Jupyter, kernel: Kernel
    ) -> None:
        run_cells(jupyter, kernel, "demo-1-job-client")
        first, second = value(kernel, "job"), value(kernel, "second")

        lab = shell.lab
        assert [lab.jobs.get(job).status for job in (first, second)] == ["SUCCEEDED"] * 2
        assert lab.jobs.get(first).metadata["job_name"] == "demo-1"
        for job in (first, second):
            (run,) = lab.history(job).runs
            assert run.last is not None
            assert run.last.progress == 3

    @pytest.mark.long
    def test_demo_2_trains_on_two_workers_and_reads_its_checkpoint_back(
        self, shell: Bench, jupyter: Jupyter, kernel: Kernel
    ) -> None:
        run_cells(jupyter, kernel, "demo-2-interactive")
        trained = value(
            kernel,
            "{'name': NAME, 'epoch': state['epoch'], 'right': right, 'path': result.checkpoint.path,"
            " 'job': ray.get_runtime_context().get_job_id()}",
        )

        assert (trained["epoch"], trained["right"] > 0.9) == (5, True), trained
        stored = [c for c in shell.lab.checkpoints() if c.run == trained["name"]]
        assert len(stored) == 5
        assert f"s3://{trained['path']}" in [c.uri for c in stored]
        (run,) = self.runs(shell, trained["job"], trained["name"])
        (attempt,) = run.attempts
        assert sorted(attempt.nodes) == [0, 1]
        assert [r.progress for r in attempt.reports] == [1, 2, 3, 4, 5]


@pytest.mark.long
def test_the_example_of_the_documents_runs_as_it_stands(bench: Bench) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    example, down, *_ = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert down == "lab.down()\n", "of the example only this cannot be run on a lab that others use"

    ended = subprocess.run(
        [sys.executable, "-c", example],
        cwd=ROOT,
        env={**bench.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[:2] == ["True", f"lab {bench.name} (runtime local): healthy"]
    at = lines.index("SUCCEEDED")
    (job,) = [j for j in bench.lab.jobs.list() if j.metadata.get("job_name") == "from-python"]
    assert lines[at + 1 :] == [c.uri for c in bench.lab.checkpoints(job.submission_id)]
    assert len(lines) - at == 3
