"""The seam: extensions of others by entry points, and a broken one that keeps nobody from anything."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.listing import Commands, listed
from lab.cli.main import main
from lab.core import EXTENSION as CORE
from lab.extension import GROUP, LOOK, Command, Extension, _loaded, extensions, failures, object_of, ours
from lab.flows.doctor import extension_checks
from lab.topology import Check

SAMPLE = Extension(
    "sample",
    commands=(
        Command(LOOK, "sample", "tests.unit.test_extension", "Show a sample."),
        Command(LOOK, "up", "tests.unit.test_extension", "Take the place of `up`."),
    ),
    checks=("tests.unit.test_extension:passes", "tests.unit.test_extension:fails"),
)


def passes(lab: Any) -> Check:
    return Check("sample", "passed", f"lab: {lab}")


def fails(lab: Any) -> Check:
    raise KeyError("sample")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with an extension, one whose module raises, and one that names something else."""

    def broken() -> Extension:
        raise ImportError("no module named gpu")

    entries = [
        SimpleNamespace(name="sample", value="sample:EXTENSION", load=lambda: SAMPLE),
        SimpleNamespace(name="broken", value="broken:EXTENSION", load=broken),
        SimpleNamespace(name="other", value="other:main", load=lambda: print),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries if group == GROUP else [])
    _loaded.cache_clear()
    yield
    _loaded.cache_clear()


def test_the_core_comes_first_and_those_of_others_last(installed: None) -> None:
    assert (extensions()[0], extensions()[-1]) == (CORE, SAMPLE)


def test_a_command_is_added_and_none_takes_the_place_of_another(installed: None) -> None:
    modules = {command.name: command.module for command in listed()}
    assert modules["sample"] == "tests.unit.test_extension"
    assert modules["up"] == "lab.cli.commands.lab"
    assert "sample" in set(Commands())


def test_what_is_broken_is_told_and_keeps_nobody_from_anything(installed: None) -> None:
    assert {name: type(error) for name, error in failures().items()} == {
        "broken": ImportError,
        "other": TypeError,
    }
    checks = [(check.name, check.outcome) for check in extension_checks(None)]
    assert checks == [
        ("extensions", "failed"),
        ("extensions", "failed"),
        ("sample", "passed"),
        ("sample", "failed"),
    ]


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
    for extension in extensions():
        for path in (*extension.faults, *extension.documents):
            __import__(path)
        for path in extension.checks:
            assert callable(object_of(path))
