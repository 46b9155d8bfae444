"""Ray's commands beside the cluster. Its command line is stood in for."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from raylab_compat import outside


class Scripts(ModuleType):
    """`ray.scripts.scripts`, which notes the addresses that it was asked to find."""

    def __init__(self) -> None:
        super().__init__("ray.scripts.scripts")
        self.asked: list[Any] = []
        self.services = SimpleNamespace(canonicalize_bootstrap_address_or_die=self.find)
        self.timeline = SimpleNamespace(callback=lambda address: pytest.fail("joins as a driver"))
        self.datetime = datetime

    def find(self, addr: Any, temp_dir: Any = None) -> Any:
        self.asked.append(addr)
        return addr


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Scripts:
    monkeypatch.setenv(outside.HEAD_VARIABLE, "ray-head:6379")
    monkeypatch.setenv("RAY_ADDRESS", "ray://ray-head:10001")
    scripts = Scripts()
    outside.commands(scripts)
    return scripts


@pytest.mark.parametrize(
    ("variable", "given", "asked"),
    [
        ("ray://ray-head:10001", None, "ray-head:6379"),
        ("ray://ray-head:10001", "auto", "ray-head:6379"),
        ("ray://ray-head:10001", "ray://ray-head:10001", "ray-head:6379"),
        ("ray://ray-head:10001", "10.0.0.1:6379", "10.0.0.1:6379"),
        ("10.0.0.1:6379", None, None),
        ("", None, None),
        ("", "auto", "auto"),
    ],
)
def test_rays_client_address_means_the_head_and_every_other_means_itself(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, variable: str, given: str | None, asked: str | None
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", variable)
    scripts.services.canonicalize_bootstrap_address_or_die(given)
    assert scripts.asked == [asked]


def test_the_timeline_is_read_from_the_head_into_the_current_folder(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class State:
        def __init__(self, address: str) -> None:
            self.address = address

        def chrome_tracing_dump(self, filename: str) -> None:
            Path(filename).write_text(json.dumps([self.address]))

    api = ModuleType("ray._private.internal_api")
    monkeypatch.setattr(api, "get_state_from_address", State, raising=False)
    for name in ("ray", "ray._private"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, api.__name__, api)
    monkeypatch.chdir(tmp_path)

    scripts.timeline.callback(None)

    (written,) = tmp_path.glob("ray-timeline-*.json")
    assert json.loads(written.read_text()) == ["ray-head:6379"]
    assert f"Trace file written to {written}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("head", "changed"), [("ray-head:6379", True), ("", False)])
def test_only_a_process_that_is_told_where_the_head_is_changes_anything(
    monkeypatch: pytest.MonkeyPatch, head: str, changed: bool
) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setenv(outside.HEAD_VARIABLE, head)
    outside.install()
    assert bool(sys.meta_path) == changed
