"""A person at JupyterLab, through its own API: notebooks, terminals, settings; and what must work there.

`JupyterTests` holds for every runtime; a test module of each gives it its lab.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lab.ext.course.datasets.getting import PICTURES
from lab.host.jupyter import INDEX
from tests.e2e.food11 import pictures
from tests.e2e.harness import PATIENCE, ROOT, Shell

NOTEBOOK = "notebooks/07-fault-tolerance.ipynb"

CELL_SECONDS = 300.0
"""Patience for one cell; the longest waits for a training of a minute on 2 idle cores."""

TRAIN = """
import json
import tempfile
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

def train(config):
    context = ray.train.get_context()
    for epoch in range(1, config["epochs"] + 1):
        with tempfile.TemporaryDirectory() as folder:
            first = context.get_world_rank() == 0
            checkpoint = Checkpoint.from_directory(folder) if first else None
            ray.train.report({"epoch": epoch, "ranks": context.get_world_size()}, checkpoint=checkpoint)

result = TorchTrainer(
    train,
    train_loop_config={"epochs": 2},
    scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
    run_config=RunConfig(name=NAME, storage_path="s3://ray"),
).fit()
print("RESULT", json.dumps({"path": result.path, **result.metrics}))
"""


class Kernel:
    """A running notebook kernel, spoken to over its WebSocket."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._session = uuid.uuid4().hex

    def run(self, code: str, timeout: float = CELL_SECONDS) -> str:
        """What a cell prints, its value last. Fails with the cell's traceback."""
        message = uuid.uuid4().hex
        header = {
            "msg_id": message,
            "msg_type": "execute_request",
            "session": self._session,
            "username": "",
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        rest = {"parent_header": {}, "metadata": {}, "channel": "shell"}
        self._socket.send(json.dumps({"header": header, "content": content, **rest}))
        printed, deadline = "", time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"a cell has not ended after {timeout:g} s:\n{code}\nIt printed:\n{printed}"
            self._socket.settimeout(left)
            answer = json.loads(self._socket.recv())
            if answer["parent_header"].get("msg_id") != message:
                continue
            kind, said = answer["msg_type"], answer["content"]
            if kind == "stream":
                printed += said["text"]
            elif kind == "execute_result":
                printed += said["data"]["text/plain"]
            elif kind == "error":
                raise AssertionError("\n".join([code, printed, *said["traceback"]]))
            elif kind == "status" and said["execution_state"] == "idle":
                return printed


@dataclass(frozen=True)
class Jupyter:
    """The server of one lab."""

    address: str
    token: str

    @classmethod
    def of(cls, shell: Shell) -> Jupyter:
        """The one whose address labctl gives."""
        url = urlsplit(shell.lab.endpoints().jupyter)
        return cls(url.netloc, parse_qs(url.query)["token"][0])

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}

    def ask(
        self, path: str, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """What the server answers; JSON where it is. Raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            f"http://{self.address}/{path}",
            data=json.dumps(body).encode() if body is not None else None,
            headers=self._headers if headers is None else dict(headers),
            method=method,
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            data = answer.read()
        return json.loads(data) if answer.headers.get_content_type() == "application/json" else data

    def _socket(self, path: str) -> Any:
        import websocket

        url = f"ws://{self.address}/{path}"
        return websocket.create_connection(url, header=self._headers, timeout=PATIENCE, suppress_origin=True)

    @contextlib.contextmanager
    def kernel(self, notebook: str = NOTEBOOK) -> Iterator[Kernel]:
        """A new kernel, started as for that notebook: in its folder."""
        # Under its own path the session would be shared with whoever has the notebook open.
        place = f"{notebook.removesuffix('.ipynb')}-{uuid.uuid4().hex[:8]}.ipynb"
        body = {"path": place, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        session = self.ask("api/sessions", "POST", body)
        try:
            socket = self._socket(f"api/kernels/{session['kernel']['id']}/channels")
            with contextlib.closing(socket):
                yield Kernel(socket)
        finally:
            self.ask(f"api/sessions/{session['id']}", "DELETE")

    def terminal(self, line: str, until: str, timeout: float = PATIENCE) -> str:
        """Type a line into a new terminal and read until it says `until`; what it said."""
        name = self.ask("api/terminals", "POST")["name"]
        try:
            with contextlib.closing(self._socket(f"terminals/websocket/{name}")) as socket:
                socket.send(json.dumps(["stdin", line + "\r"]))
                said, deadline = "", time.monotonic() + timeout
                while until not in said:
                    left = deadline - time.monotonic()
                    assert left > 0, f"the terminal does not say {until!r}:\n{said}"
                    socket.settimeout(left)
                    kind, *rest = json.loads(socket.recv())
                    said += rest[0] if kind == "stdout" else ""
                return said
        finally:
            self.ask(f"api/terminals/{name}", "DELETE")


class InJupyter:
    """Tests in a lab's Jupyter. `shell` is a lab that is up, with simulated GPUs."""

    @pytest.fixture
    def jupyter(self, shell: Shell) -> Jupyter:
        return Jupyter.of(shell)


class JupyterTests(InJupyter):
    """What Jupyter must do in any lab."""

    def test_a_cell_trains_on_the_workers_without_any_set_up(self, shell: Shell, jupyter: Jupyter) -> None:
        name = f"cell-{uuid.uuid4().hex[:8]}"
        with jupyter.kernel() as kernel:
            printed = kernel.run(f"NAME = {name!r}\n{TRAIN}")
            where = kernel.run("import os\nos.getcwd(), ray.cluster_resources()['GPU']")
        result = json.loads(printed.rpartition("RESULT")[2])
        assert result == {"path": f"ray/{name}", "epoch": 2, "ranks": 2}
        assert "/notebooks'" in where
        assert where.endswith("2.0)"), "Jupyter itself offers a GPU"

    def test_ray_job_submit_works_in_a_terminal_and_the_job_sees_food_11(
        self, shell: Shell, jupyter: Jupyter
    ) -> None:
        pictures(shell)
        job = f"terminal-{uuid.uuid4().hex[:8]}"
        count = "sh -c 'ls $FOOD11_DATA_DIR/training/class_10 | wc -l'"
        submit = f"ray job submit --submission-id {job} --entrypoint-num-cpus 1 -- {count}"
        said = jupyter.terminal(f"{submit}; echo 'exit code: '$?", "exit code: 0")
        assert job in said
        assert shell.lab.jobs.get(job).status == "SUCCEEDED"
        printed = [line.strip() for line in shell.lab.jobs.logs(job).splitlines()]
        assert str(PICTURES) in printed  # before or after the line with which Ray says what it runs

    @pytest.mark.parametrize(
        ("command", "says"),
        [("ray status", "CPU"), ("ray list nodes", "ALIVE"), ("ray timeline", "Trace file written to")],
    )
    def test_rays_own_commands_work_in_a_terminal_as_they_are(
        self, jupyter: Jupyter, command: str, says: str
    ) -> None:
        said = jupyter.terminal(f"cd /tmp; {command}; echo 'exit code: '$?", "exit code: 0")
        assert says in said, said

    def test_it_opens_on_an_index_of_the_lessons_which_no_file_has(self, jupyter: Jupyter) -> None:
        with urllib.request.urlopen(f"http://{jupyter.address}/?token={jupyter.token}") as answer:
            assert urlsplit(answer.url).path == f"/lab/tree/{INDEX}"
        page = jupyter.ask(f"api/contents/{INDEX}")
        assert "(notebooks/00-first-steps.ipynb)" in page["content"]
        assert INDEX in [entry["name"] for entry in jupyter.ask("api/contents")["content"]]
        assert not (ROOT / "workspace" / INDEX).exists()

    def test_a_page_of_another_host_name_is_refused_even_with_the_token(self, jupyter: Jupyter) -> None:
        headers = {"Authorization": f"token {jupyter.token}"}
        assert jupyter.ask("api/contents", headers=headers)["type"] == "directory"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            jupyter.ask("api/contents", headers={**headers, "Host": "rebound.example"})

    def test_whoever_has_no_token_is_refused(self, jupyter: Jupyter) -> None:
        with pytest.raises(urllib.error.HTTPError, match="403"):
            jupyter.ask("api/contents", headers={})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            jupyter.ask("api/contents", headers={"Authorization": "token wrong"})

    def test_jupyterlab_asks_nobody_for_news_or_updates(self, jupyter: Jupyter) -> None:
        settings = jupyter.ask("lab/api/settings/@jupyterlab/apputils-extension:notification")
        defaults = {name: setting["default"] for name, setting in settings["schema"]["properties"].items()}
        assert defaults["fetchNews"] == "false"
        assert defaults["checkForUpdates"] is False
        page = jupyter.ask("lab").decode()
        assert '"news": {"disabled": true}' in page
        assert '"name": "read-only"' in page, "the extension manager asks PyPI"
