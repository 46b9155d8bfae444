"""JupyterLab of a lab of containers."""

from __future__ import annotations

import urllib.error
import uuid
from pathlib import Path

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.jupyter import Jupyter, JupyterTests


class TestJupyter(JupyterTests):
    def test_a_file_made_in_jupyter_belongs_to_its_user_or_status_says_that_it_cannot_be_made(
        self, box: ContainerBench, jupyter: Jupyter
    ) -> None:
        container = box.containers()["jupyter"]
        (workspace,) = (Path(m["Source"]) for m in container["Mounts"] if m["Destination"] == "/workspace")
        uid = int(container["Config"]["User"].partition(":")[0])
        name = f"test-{uuid.uuid4().hex[:8]}.txt"
        notes = " ".join(box.labctl("status", "--json").document["notes"])
        try:
            jupyter.ask(f"api/contents/{name}", "PUT", {"type": "file", "format": "text", "content": "kept"})
        except urllib.error.HTTPError:
            assert workspace.stat().st_uid != uid
            assert "Jupyter cannot write" in notes
        else:
            made = workspace / name
            assert (made.read_text(), made.stat().st_uid) == ("kept", uid)
            assert "Jupyter cannot write" not in notes
            jupyter.ask(f"api/contents/{name}", "DELETE")
