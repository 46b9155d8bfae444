"""What a fork server imports before it serves, and what speaks against forking it then."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from forkserver import identity, modules, preload, threads
from forkserver.application import Application
from forkserver.reads import Reads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count", lambda: 1)
    monkeypatch.setattr(identity, "shared", lambda: False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def test_a_process_with_one_thread_and_no_device_can_be_forked() -> None:
    assert preload.unfit() == ""


def test_what_speaks_against_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "shared", lambda: True)
    assert preload.unfit() == "forks would give things the same ids"
    assert preload.spoilt() == ""
    torch = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert preload.unfit() == preload.spoilt() == "CUDA is initialised"
    monkeypatch.setattr(threads, "count", lambda: 3)
    assert preload.unfit() == preload.spoilt() == "3 threads"


def test_a_device_that_is_open_speaks_against_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "DEVICES", (str(tmp_path / "nvidia"),))
    (tmp_path / "nvidia0").touch()
    with (tmp_path / "nvidia0").open():
        assert preload.spoilt() == "a GPU is open"
    assert preload.spoilt() == ""


class Imports:
    """Stands for `modules.import_all`: notes what it is told to import, after the priority is lowered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spoiler: str = "") -> None:
        self.asked: list[tuple[str, ...]] = []
        self._spoiler, self._patch = spoiler, monkeypatch
        monkeypatch.setattr(modules, "import_all", self)
        monkeypatch.setattr(identity, "left_alone", contextlib.nullcontext)
        monkeypatch.setattr(preload, "lower_priority", lambda: self.asked.append(("lower",)))

    def __call__(self, names: Iterable[str], spoilt: Callable[[], str] = lambda: "") -> str:
        names = tuple(names)
        self.asked.append(names)
        if self._spoiler in names:
            self._patch.setattr(threads, "count", lambda: 3)
        return self._spoiler if spoilt() else ""


@pytest.fixture
def learns(tmp_path: Path) -> Application:
    path = str(tmp_path / "modules.json")
    modules.remember(path, ["one", "two"])
    return Application(modules=("mine",), learnt=path)


def test_trainings_modules_come_first_then_what_ranks_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learns: Application
) -> None:
    imports, before = Imports(monkeypatch), dict(os.environ)
    assert preload.import_for_training(str(tmp_path), Reads(), learns) == ""
    assert imports.asked == [("lower",), (*modules.TRAIN, "mine"), ("one", "two")]
    assert dict(os.environ) == before


def test_a_learnt_module_that_starts_a_thread_is_named_and_left_out_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learns: Application
) -> None:
    monkeypatch.setattr(threads, "wait_for_one", lambda: None)
    with monkeypatch.context() as patch:
        Imports(patch, spoiler="two")
        assert preload.import_for_training(str(tmp_path), Reads(), learns) == "two"
    preload.avoid(str(tmp_path), "two")
    imports = Imports(monkeypatch)
    assert preload.import_for_training(str(tmp_path), Reads(), learns) == ""
    assert imports.asked == [("lower",), (*modules.TRAIN, "mine"), ("one",)]


def test_after_threads_of_trainings_own_nothing_more_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learns: Application
) -> None:
    monkeypatch.setattr(threads, "wait_for_one", lambda: None)
    imports = Imports(monkeypatch, spoiler="torch")
    assert preload.import_for_training(str(tmp_path), Reads(), learns) == ""
    assert imports.asked == [("lower",), (*modules.TRAIN, "mine")]


def test_the_search_path_of_every_process_is_without_what_is_one_processes_own() -> None:
    path = ["/probe", os.getcwd(), "", "/lib", "/lib/packages"]
    assert preload.base_path(path, {"PYTHONPATH": "/probe::/more"}) == ["/lib", "/lib/packages"]


def test_only_top_level_modules_from_files_can_be_hidden() -> None:
    modules = preload.top_level()
    assert {"json", "pytest"} <= modules
    assert not modules & {"sys", "json.decoder", "__main__"}
