"""JupyterLab of a lab of plain processes."""

from __future__ import annotations

import json

from tests.e2e.food11 import pictures
from tests.e2e.harness import Bench
from tests.e2e.jupyter import NOTEBOOK, Jupyter, JupyterTests


class TestJupyter(JupyterTests):
    def test_labctl_is_in_its_terminal_and_means_this_lab(self, shell: Bench, jupyter: Jupyter) -> None:
        said = jupyter.terminal("labctl status --addresses; echo 'exit code: '$?", "exit code: 0")
        assert shell.lab.endpoints().dashboard in said

    def test_a_notebook_kills_a_training_and_proves_that_it_went_on(
        self, shell: Bench, jupyter: Jupyter
    ) -> None:
        pictures(shell)  # while the lab is up
        cells = jupyter.ask(f"api/contents/{NOTEBOOK}")["content"]["cells"]
        with jupyter.kernel() as kernel:
            kernel.run("import os; os.environ['RAYLAB_BREAK'] = 'process'")
            printed = [kernel.run(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            assert kernel.run("session.check().passed").endswith("True"), printed[-1]
        proof = json.loads(next(text for text in printed if text.startswith("{")))
        assert proof["status"] == "SUCCEEDED"
        assert proof["loaded_checkpoint"] == proof["newest_checkpoint"]
        assert proof["same_sha256"] is True

        (run,) = shell.lab.history(proof["job"]).runs
        first, second = run.attempts
        assert first.failure_detected_at is not None
        assert [load.uri for load in second.loads] == [proof["newest_checkpoint"]]
        assert second.first is not None
        assert second.first.progress == proof["first_epoch_after"] == proof["its_epoch"] + 1
        assert run.last is not None
        assert run.last.progress == proof["last_epoch"]
