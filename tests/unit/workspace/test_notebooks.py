"""The notebooks of the workspace, as they are kept; and the settings of the Jupyter that opens them."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "workspace").rglob("*.ipynb"))
SETTINGS = ROOT / "compose" / "jupyter"


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    return [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == kind]


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    kept = [c for c in cells(notebook, "code") if c["outputs"] or c["execution_count"] is not None]
    assert kept == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_is_python_apart_from_its_shell_commands(notebook: Path) -> None:
    for cell in cells(notebook, "code"):
        lines = "".join(cell["source"]).splitlines()
        ast.parse("\n".join("pass" if line.startswith("!") else line for line in lines))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_file_that_a_notebook_links_to_is_there(notebook: Path) -> None:
    text = "".join("".join(c["source"]) for c in cells(notebook, "markdown"))
    targets = [part.split(")")[0] for part in text.split("](")[1:]]
    assert [t for t in targets if "://" not in t and not (notebook.parent / t).exists()] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_only_looks_at_its_lab(notebook: Path) -> None:
    """In a container, JupyterLab has nothing but a LabView."""
    text = "".join("".join(c["source"]) for c in cells(notebook, "code"))
    assert not [name for name in ("lab.runtime", "lab.control") if name in text]


class FakeRay:
    """A cluster on which nothing ends, as a notebook's cell sees it."""

    def __init__(self, cpus: float, error: type[BaseException]) -> None:
        self.cpus, self.error = cpus, error
        self.cancelled: list[tuple[object, bool]] = []

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cpus}

    def remote(self, **_: Any) -> Any:
        return lambda task: SimpleNamespace(remote=lambda: f"{task.__name__} runs")

    def get(self, running: object, timeout: float) -> None:
        assert timeout > 0
        raise self.error

    def cancel(self, running: object, *, force: bool) -> None:
        self.cancelled.append((running, force))


def cell_with(name: str, text: str) -> str:
    sources = ["".join(c["source"]) for c in cells(ROOT / f"workspace/notebooks/{name}.ipynb", "code")]
    (cell,) = [source for source in sources if text in source]
    return cell


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize(
    ("name", "task"), [("demo-2-interactive", "train_on_the_cluster"), ("demo-3-interactive-tune", "search")]
)
def test_a_wait_that_is_given_up_ends_what_it_waits_for(
    name: str, task: str, error: type[BaseException]
) -> None:
    ray = FakeRay(16, error)
    with pytest.raises(error):
        exec(cell_with(name, "ray.get("), {"ray": ray, "time": time})
    assert ray.cancelled == [(f"{task} runs", True)]


@pytest.mark.parametrize(("cpus", "fits"), [(6, False), (7, True)])
def test_a_trial_that_does_not_fit_is_refused_before_the_search(cpus: float, fits: bool) -> None:
    names: dict[str, Any] = {"ray": FakeRay(cpus, KeyboardInterrupt), "WORKERS": 2, "CPUS_PER_WORKER": 3}
    cell = cell_with("demo-3-interactive-tune", "AT_ONCE = ")
    if fits:
        exec(cell, names)
        assert names["AT_ONCE"] == 1
        return
    with pytest.raises(RuntimeError, match="needs 7 CPUs of 6"):
        exec(cell, names)


def test_no_number_of_trials_at_once_is_no_limit_so_one_is_the_least() -> None:
    assert "max_concurrent_trials=max(1, AT_ONCE)" in cell_with("demo-3-interactive-tune", "TuneConfig(")


def test_a_page_of_another_host_name_is_refused_although_a_container_listens_everywhere() -> None:
    server = json.loads((SETTINGS / "jupyter_server_config.json").read_text())["ServerApp"]
    assert server["allow_remote_access"] is False


def test_a_terminal_is_no_login_shell_which_would_lose_the_labs_path() -> None:
    # jupyter_server_terminals adds -l unless a shell is named.
    server = json.loads((SETTINGS / "jupyter_server_config.json").read_text())["ServerApp"]
    assert server["terminado_settings"] == {"shell_command": ["bash"]}
