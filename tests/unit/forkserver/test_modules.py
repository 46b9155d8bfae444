"""What is imported ahead."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from forkserver import modules


def module(name: str, origin: str | None, called: str = "") -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(called or name, None, origin=origin)
    return made


def test_only_what_is_installed_is_learnt(tmp_path: Path) -> None:
    standard = json.__file__
    loaded = {
        "json": module("json", standard),
        "mine": module("mine", str(tmp_path / "mine.py")),
        "sys": module("sys", "built-in"),
        "made.up": module("made.up", None),
        "alias": module("alias", standard, called="json"),
        "__main__": ModuleType("__main__"),
        "none": None,
    }
    assert modules.imported(loaded) == ("json",)


def test_what_was_learnt_is_kept_once_and_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "modules.json")
    assert modules.learnt(path) == ()
    assert modules.remember(path, ["b", "a"])
    assert modules.remember(path, ["a", "c"])
    assert not modules.remember(path, ["c", "b"])
    assert modules.learnt(path) == ("b", "a", "c")
    assert [path.name for path in tmp_path.iterdir()] == ["modules.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"modules": 5}', '{"modules": null}', '"x"'])
def test_a_damaged_file_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "modules.json"
    path.write_text(content)
    assert modules.learnt(str(path)) == ()


def test_what_cannot_be_imported_is_left_to_who_needs_it() -> None:
    asked: list[str] = []

    def load(name: str) -> None:
        asked.append(name)
        if name == "bad":
            raise ImportError(name)
        if name == "worse":
            raise SystemExit(1)

    assert modules.import_all(["one", "bad", "worse", "sys", "two"], load=load) == ""
    assert asked == ["one", "bad", "worse", "two"]


def test_what_a_failed_import_has_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "half_there"
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("import half_there.parts.one, half_there_beside, not_there_at_all")
    (package / "parts" / "__init__.py").touch()
    (package / "parts" / "one.py").touch()
    (tmp_path / "half_there_beside.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert modules.import_all(["half_there"]) == ""
    left = {name for name in sys.modules if name.startswith("half_there")}
    for name in left:
        monkeypatch.delitem(sys.modules, name)
    assert left == {"half_there_beside"}


def test_the_module_that_spoils_the_process_is_named() -> None:
    asked: list[str] = []
    spoilt = modules.import_all(
        ["one", "two", "three"], lambda: "threads" * (asked[-1] == "two"), asked.append
    )
    assert (spoilt, asked) == ("two", ["one", "two"])


def test_the_modules_of_a_package_are_found_and_of_none_are_none() -> None:
    assert "json.decoder" in modules.members("json")
    assert modules.members("no_such_package_anywhere") == ()
    assert "json" in sys.modules


def test_a_module_that_is_left_out_is_not_found_until_afterwards() -> None:
    name = "xml.dom.pulldom"
    modules.forget(name)
    with modules.without(name), pytest.raises(ImportError):
        importlib.import_module(name)
    loaded = importlib.import_module(name)
    with modules.without(name):
        assert importlib.import_module(name) is loaded, "what is loaded stays"


def test_a_forgotten_module_is_imported_anew_also_by_way_of_its_package() -> None:
    from xml.dom import pulldom as first

    modules.forget("xml.dom.pulldom")
    from xml.dom import pulldom as second

    assert first is not second
    modules.forget("xml.dom.pulldom")
    modules.forget("xml.dom.pulldom")
