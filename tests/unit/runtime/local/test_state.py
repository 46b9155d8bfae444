"""The state file: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.errors import StateError
from lab.runtime.local import state
from lab.runtime.local.processes import Identity
from lab.runtime.local.state import LabState
from lab.services import HEAD, STORE, worker
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor

FULL = LabState(
    spec=LabSpec(
        name="other",
        gpu=GpuPlan(Vendor.NVIDIA, (GpuAssignment(worker(0), "GPU-1", "H200"),), "asked for"),
        workers=3,
        cpus_per_worker=4,
        ports=(("s3", 9999),),
        stock_ray=True,
        queued_only=True,
    ),
    ports={"s3": 9999, "gcs": 6379, "dashboard": 8265, "client": 10001, "jupyter": 8888, "queue": 8266},
    booted_at=1000.0,
    boot="boot-1",
    store="moto",
    leaders={HEAD: Identity(12, 1234.56, 1_700_000_000.5)},
    notes=("a note",),
)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state.save(tmp_path, FULL)

    loaded = state.load(tmp_path)
    assert loaded == FULL
    assert loaded is not None
    assert loaded.leaders[HEAD].spawned_at == 1_700_000_000.5
    assert (tmp_path / state.FILE).stat().st_mode & 0o777 == 0o600


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert state.load(tmp_path / "nowhere") is None


def test_leaders_come_and_go_without_changing_the_original() -> None:
    more = FULL.with_leader(STORE, Identity(13, 1.0))

    assert set(more.leaders) == {HEAD, STORE}
    assert more.without_leader(HEAD).leaders == {STORE: Identity(13, 1.0)}
    assert more.without_leader("nobody") == more
    assert set(FULL.leaders) == {HEAD}


@pytest.mark.parametrize(
    ("boot", "stale"), [(1000.0, False), (1059.0, False), (941.0, False), (1061.0, True)]
)
def test_a_state_from_before_a_reboot_is_stale(
    monkeypatch: pytest.MonkeyPatch, boot: float, stale: bool
) -> None:
    monkeypatch.setattr(psutil, "boot_time", lambda: boot)
    monkeypatch.setattr(state, "boot_id", lambda: "")

    assert FULL.stale is stale


@pytest.mark.parametrize(("boot", "stale"), [("boot-1", False), ("boot-2", True)])
def test_where_a_boot_has_a_name_a_clock_that_was_set_makes_nothing_stale(
    monkeypatch: pytest.MonkeyPatch, boot: str, stale: bool
) -> None:
    monkeypatch.setattr(psutil, "boot_time", lambda: FULL.booted_at + 86_400)
    monkeypatch.setattr(state, "boot_id", lambda: boot)

    assert FULL.stale is stale


def changed(path: tuple[str, ...], value: Any) -> bytes:
    document: dict[str, Any] = {"schema": state.SCHEMA, **dataclasses.asdict(FULL)}
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        changed(("schema",), "raylab-local/1"),
        changed(("schema",), None),
        changed(("ports",), ["s3"]),
        changed(("ports", "dashboard"), None),
        changed(("boot",), None),
        changed(("ports",), {"s3": "many"}),
        changed(("leaders",), {HEAD: {"pid": "x", "started_at": 1}}),
        changed(("leaders",), {HEAD: {"pid": 1}}),
        changed(("booted_at",), "yesterday"),
        changed(("spec", "workers"), 0),
        changed(("spec", "name"), "../x"),
        changed(("spec", "gpu", "vendor"), "intel"),
        changed(("spec", "gpu", "assignments"), [{"unknown": 1}]),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / state.FILE).write_bytes(content)

    with pytest.raises(StateError, match=r"state file .*state\.json is damaged") as caught:
        state.load(tmp_path)
    assert "labctl down" in caught.value.hint


def test_a_file_that_is_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    (tmp_path / state.FILE).write_text("[" * 200_000)

    with pytest.raises(StateError, match=r"damaged .*nested too deeply"):
        state.load(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / state.FILE).mkdir()

    with pytest.raises(StateError, match=r"state\.json .*Is a directory"):
        state.load(tmp_path)


def test_a_state_without_the_newer_fields_can_still_be_read(tmp_path: Path) -> None:
    document: dict[str, Any] = {"schema": state.SCHEMA, **dataclasses.asdict(FULL)}
    del document["notes"]
    del document["spec"]["stock_ray"]
    (tmp_path / state.FILE).write_text(json.dumps(document))

    loaded = state.load(tmp_path)

    assert loaded is not None
    assert (loaded.notes, loaded.spec.stock_ray) == ((), False)
