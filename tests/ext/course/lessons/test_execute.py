"""The process that executes a notebook, with a stand-in for nbclient: its events, its end, its deadline."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.ext.course.lessons.execute import FAILED, execute, first_line, main, printed, stop
from tests.fakes.host import FakeClock


class Cell(SimpleNamespace):
    """A cell, with the two ways in which nbformat lets it be read."""

    def get(self, name: str, default: Any) -> Any:
        return getattr(self, name, default)


def code(source: str, *outputs: dict[str, Any]) -> Cell:
    return Cell(cell_type="code", source=source, outputs=list(outputs))


class CellError(Exception):
    """What a cell raised."""

    ename, evalue = "JobError", "job x ended FAILED"


class LateError(Exception):
    """A cell took too long."""


class DeadError(Exception):
    """The kernel has ended."""


CELLS = [
    Cell(cell_type="markdown", source="# Title"),
    code("import time\n# now\nsession = Session(2)", {"output_type": "stream", "text": "hello\n"}),
    code("session.check()", {"output_type": "execute_result", "data": {"text/plain": "<lesson 2: passed>"}}),
]


class Stage:
    """Plays nbformat and nbclient; `error` is raised in place of the last cell's end."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.options: dict[str, Any] = {}
        self.kept: list[str] = []

    def client(self, notebook: Any, **options: Any) -> Any:
        self.options = options

        def run() -> None:
            for index, cell in enumerate(notebook.cells):
                options["on_cell_start"](cell=cell, cell_index=index)
                if self.error is not None and index == len(notebook.cells) - 1:
                    raise self.error
                options["on_cell_executed"](cell=cell, cell_index=index, execute_reply={})

        return SimpleNamespace(execute=run)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    playing = Stage()
    formats, client, errors = (
        ModuleType("nbformat"),
        ModuleType("nbclient"),
        ModuleType("nbclient.exceptions"),
    )
    notebook = SimpleNamespace(cells=CELLS, metadata={})
    formats.read = lambda path, as_version: notebook  # type: ignore[attr-defined]
    formats.writes = lambda notebook: json.dumps(notebook.metadata)  # type: ignore[attr-defined]
    client.NotebookClient = playing.client  # type: ignore[attr-defined]
    errors.CellExecutionError, errors.CellTimeoutError = CellError, LateError  # type: ignore[attr-defined]
    errors.DeadKernelError = DeadError  # type: ignore[attr-defined]
    for name, fake in (("nbformat", formats), ("nbclient", client), ("nbclient.exceptions", errors)):
        monkeypatch.setitem(sys.modules, name, fake)
    return playing


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_code_cell_is_told_when_it_has_ended(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(Path("notebooks/02.ipynb"), 60, stage.kept.append) == 0
    progress = events(capsys)
    assert [event["event"] for event in progress] == ["started", "cell", "cell"]
    assert progress[1] == {
        "event": "cell",
        "number": 1,
        "of": 2,
        "line": "session = Session(2)",
        "seconds": progress[1]["seconds"],
        "output": "hello\n",
    }
    assert progress[2]["output"] == "<lesson 2: passed>\n"
    assert stage.options["resources"] == {"metadata": {"path": "notebooks"}}
    assert "seconds" in json.loads(stage.kept[0])["raylab"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CellError(), "JobError: job x ended FAILED"),
        (LateError(), "not ended within 60 s"),
        (DeadError(), "its kernel has ended"),
    ],
)
def test_a_cell_that_fails_is_told_and_the_notebook_kept(
    stage: Stage, capsys: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    stage.error = error
    assert execute(Path("02.ipynb"), 60, stage.kept.append) == FAILED
    last = events(capsys)[-1]
    assert (last["event"], last["number"], last["of"]) == ("failed", 2, 2)
    assert said in last["error"]
    assert len(stage.kept) == 1


def test_the_deadline_is_the_whole_notebooks(stage: Stage) -> None:
    clock = FakeClock(100.0)
    execute(Path("02.ipynb"), 60, stage.kept.append, clock)
    left: Callable[[Any], int] = stage.options["timeout_func"]
    assert left(None) == 60
    clock.now = 145.0
    assert left(None) == 15
    clock.now = 500.0
    assert left(None) == 1


def test_a_cell_is_called_by_its_first_telling_line() -> None:
    assert first_line("import os\n\n# comment\nfor x in y:\n    pass") == "for x in y:"
    assert first_line("import os\nfrom a import b") == "import os"
    assert first_line("\n") == ""


def test_errors_and_pictures_are_no_text() -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "..."}}
    assert printed(code("x", picture, {"output_type": "error", "ename": "E"})) == "\n"
    assert printed(Cell(cell_type="markdown")) == ""


def test_a_notebook_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(tmp_path / "none.ipynb")]) == FAILED
    (failure,) = events(capsys)
    assert failure["number"] == 0
    assert "there is no notebook" in failure["error"]


def test_a_process_that_is_gone_or_another_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "lab.ext.course.lessons.execute.os.kill", lambda pid, number: sent.append((pid, number))
    )
    assert stop(2**22 + 12345) == 0, "no such process"
    if Path("/proc/self").exists():
        assert stop(1) == 0, "not one that executes a notebook"
        assert sent == []
