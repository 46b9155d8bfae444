"""The demo notebooks, cell by cell in the lab's own JupyterLab.

`InteractiveDemos` holds for every runtime; a test module of each gives it its lab.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.evidence.ledger import Run
from tests.e2e.harness import Shell
from tests.e2e.jupyter import InJupyter, Jupyter, Kernel


def run_cells(jupyter: Jupyter, kernel: Kernel, notebook: str) -> list[str]:
    """What each code cell prints. Fails with the traceback of the cell that fails."""
    cells = jupyter.ask(f"api/contents/notebooks/{notebook}.ipynb")["content"]["cells"]
    return [kernel.run(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def value(kernel: Kernel, expression: str) -> Any:
    """What an expression is in the kernel, through JSON."""
    return json.loads(kernel.run(f"import json; print(json.dumps({expression}, default=float))"))


class InteractiveDemos(InJupyter):
    """What a notebook can do on the cluster."""

    @pytest.fixture
    def kernel(self, jupyter: Jupyter) -> Iterator[Kernel]:
        with jupyter.kernel("notebooks/demo.ipynb") as kernel:
            yield kernel

    @pytest.mark.long
    def test_demo_3_tunes_three_trials_of_two_workers_and_runs_at_once_what_fits(
        self, shell: Shell, jupyter: Jupyter, kernel: Kernel
    ) -> None:
        run_cells(jupyter, kernel, "demo-3-interactive-tune")
        tuned = value(
            kernel,
            "{'trials': table[['logloss', 'error', 'checkpoint']].to_dict('records'), 'fit': AT_ONCE,"
            " 'most': most, 'stamp': STAMP, 'rounds': model.num_boosted_rounds(),"
            " 'job': ray.get_runtime_context().get_job_id()}",
        )

        trials = tuned["trials"]
        assert len(trials) == 3
        assert [t["logloss"] for t in trials] == sorted(t["logloss"] for t in trials)
        assert 0 < trials[0]["logloss"] < 0.6, "no better than guessing"
        assert trials[0]["error"] < 0.15
        spec = shell.lab.runtime.spec()
        cpus = max(1, (spec.cpus_per_worker - 2) // 2)
        assert tuned["fit"] == spec.workers * spec.cpus_per_worker // (1 + 2 * cpus)
        assert tuned["most"] <= tuned["fit"]
        assert tuned["rounds"] == 10
        stored = {c.uri for c in shell.lab.checkpoints()}
        assert {f"s3://{t['checkpoint']}" for t in trials} <= stored
        runs = self.runs(shell, tuned["job"], f"demo-3-{tuned['stamp']}/")
        assert len({run.name for run in runs}) == 3
        assert all(sorted(run.attempts[-1].nodes) == [0, 1] for run in runs)

    @staticmethod
    def runs(shell: Shell, job: str, name: str) -> list[Run]:
        """The runs of a notebook whose names begin so, from the ledger."""
        history = shell.lab.history(f"interactive-{job}")
        return [run for run in history.runs if run.name.startswith(name)]
