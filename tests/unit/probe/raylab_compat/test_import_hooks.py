"""Changes to modules of others that are made when they are imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from raylab_compat.import_hooks import after_import

NAME = "a_module_of_somebody_else"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text("changed_by = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    sys.modules.pop(NAME, None)


def test_two_that_change_the_same_module_both_do() -> None:
    def first(module: ModuleType) -> None:
        module.changed_by.append("first")

    def second(module: ModuleType) -> None:
        module.changed_by.append("second")

    after_import({NAME: first})
    after_import({NAME: second, "another": second})
    assert importlib.import_module(NAME).changed_by == ["first", "second"]


def test_what_is_imported_already_is_changed_at_once_and_once() -> None:
    changes = {NAME: lambda module: module.changed_by.append("late")}
    importlib.import_module(NAME)
    after_import(changes)
    after_import(changes)
    assert sys.modules[NAME].changed_by == ["late"]


def test_a_change_that_fails_is_said_and_the_module_stays(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(module: ModuleType) -> None:
        raise RuntimeError("not like this")

    after_import({NAME: fail})
    assert importlib.import_module(NAME).changed_by == []
    assert "is left as it is: RuntimeError('not like this')" in capsys.readouterr().err
