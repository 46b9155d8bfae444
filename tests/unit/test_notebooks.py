"""The notebooks of the workspace, as they are kept; and the settings of the Jupyter that opens them."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
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


def test_a_page_of_another_host_name_is_refused_although_a_container_listens_everywhere() -> None:
    server = json.loads((SETTINGS / "jupyter_server_config.json").read_text())["ServerApp"]
    assert server["allow_remote_access"] is False


def test_a_terminal_is_no_login_shell_which_would_lose_the_labs_path() -> None:
    # jupyter_server_terminals adds -l unless a shell is named.
    server = json.loads((SETTINGS / "jupyter_server_config.json").read_text())["ServerApp"]
    assert server["terminado_settings"] == {"shell_command": ["bash"]}
