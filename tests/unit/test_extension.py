"""The seam: extensions of others by entry points, and a broken one that keeps nobody from anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from lab.cli.commands.lab import before_down
from lab.cli.listing import Commands, _add, all_commands, listed
from lab.cli.main import main
from lab.core import EXTENSION as CORE
from lab.extension import (
    GROUP,
    LOOK,
    Command,
    Extension,
    _loaded,
    extensions,
    failures,
    is_there,
    object_of,
    ours,
)
from lab.flows.doctor import extension_checks
from lab.flows.traces import _things
from lab.topology import Check

HERE = "tests.unit.test_extension"

SAMPLE = Extension(
    "sample",
    commands=(
        Command(LOOK, "sample", HERE, "Show a sample."),
        Command(LOOK, "up", HERE, "Take the place of `up`."),
        Command("", "class list", HERE, "Take the place of `class list`."),
        Command("", "class tell", HERE, "Tell something."),
        Command("", "class gone", "no_such_module", "Be nowhere."),
    ),
    before_down=(f"{HERE}:fails", f"{HERE}:says_nothing"),
    traces=(f"{HERE}:lists", "no_such_module:traces"),
    checks=(f"{HERE}:passes", f"{HERE}:fails", f"{HERE}:ends", f"{HERE}:says_nothing"),
)


def passes(lab: Any) -> Check:
    return Check("sample", "passed", f"lab: {lab}")


def fails(lab: Any) -> Check:
    raise KeyError("sample")


def ends(lab: Any) -> Check:
    sys.exit("sample")


def says_nothing(lab: Any) -> None:
    print("sample")


def lists(folder: Path) -> Iterator[tuple[str, Path, bool]]:
    yield "a sample", folder, False
    raise OSError("sample")


COMMANDS = (click.Command("list"), click.Command("tell"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with an extension, one whose module raises, and one that names something else."""

    entries = [
        SimpleNamespace(name="sample", value=f"{HERE}:SAMPLE"),
        SimpleNamespace(name="broken", value="no_such_module:EXTENSION"),
        SimpleNamespace(name="broken", value=f"{HERE}:passes"),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries if group == GROUP else [])
    _loaded.cache_clear()
    yield
    _loaded.cache_clear()


def test_the_core_comes_first_and_those_of_others_last(installed: None) -> None:
    assert (extensions()[0], extensions()[-1]) == (CORE, SAMPLE)


def test_a_command_is_added_and_none_takes_the_place_of_another(installed: None) -> None:
    modules = {command.name: command.module for command in listed()}
    assert modules["sample"] == HERE
    assert modules["up"] == "lab.cli.commands.lab"
    assert "sample" in set(Commands())


def test_what_is_broken_is_told_and_keeps_nobody_from_anything(installed: None) -> None:
    assert {name: type(error) for name, error in failures().items()} == {
        "broken = no_such_module:EXTENSION": ModuleNotFoundError,
        f"broken = {HERE}:passes": TypeError,
    }
    checks = [(check.name, check.outcome) for check in extension_checks(None)]
    assert checks == [
        ("extensions", "failed"),
        ("extensions", "failed"),
        ("sample", "passed"),
        ("sample", "failed"),
        ("sample", "failed"),
        ("sample", "failed"),
    ]


def test_below_a_group_it_adds_what_is_not_there_and_harms_nothing(installed: None) -> None:
    group, own = click.Group("class"), click.Command("list")
    group.add_command(own)
    for row in all_commands():
        if row.name.startswith("class "):
            _add(group, row)
    assert group.commands["tell"] is COMMANDS[1]
    assert group.commands["list"] is own
    assert "gone" not in group.commands


def test_a_lab_goes_down_and_traces_are_listed_whatever_it_raises(
    installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab: Any = None
    assert list(before_down(lab))[-1] == f"{HERE}:fails raised KeyError('sample')"
    assert capsys.readouterr().out == ""
    assert [(trace.what, trace.place) for trace in _things(tmp_path)] == [("a sample", str(tmp_path))]


def test_an_extension_that_was_deleted_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lab.extension.OURS", ("lab.core", "lab.ext.deleted", "lab.deleted.queues"))
    ours.cache_clear()
    assert ours() == (CORE,)
    assert main(["--help"]) == 0
    assert "Grow beyond this machine" not in capsys.readouterr().out
    ours.cache_clear()


def test_everything_that_an_extension_of_ours_names_is_there() -> None:
    for extension in ours():
        for path in (*extension.faults, *extension.documents):
            __import__(path)
        for path in (*extension.checks, *extension.before_down, *extension.traces):
            assert callable(object_of(path))


def test_a_folder_without_code_is_no_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "left_over_of_an_extension" / "__pycache__").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_there("left_over_of_an_extension")
    assert is_there("lab.core")
