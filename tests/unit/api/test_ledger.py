"""What the probe writes to a ledger are the kinds and the fields that the lab declares, and no others."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest

from lab.api import ledger
from lab.api.ledger import KINDS, LEDGER_SCHEMA, CheckpointSaved, Payload, RunStarted, payload_of
from lab.api.ledger_fields import SavedFile
from lab.extension import probes
from raylab_ledger import recorder
from tests.conftest import ROOT

HEADER = {"schema", "event", "at", "job", "run", "run_id", "attempt", "rank", "node_id", "stream", "n"}
DAMAGED: tuple[object, ...] = (
    None,
    True,
    1,
    2.5,
    10**400,
    "x",
    [],
    [None],
    [{"rank": 0}],
    [[1]],
    {},
    {"a": 1},
)
RECORDED = sorted((ROOT / "tests" / "unit" / "data").glob("ledger_*.jsonl"))


def declared(kind: type[Payload]) -> set[str]:
    return set(get_type_hints(kind))


def written() -> dict[str, set[str]]:
    """Kind of each event that the probe records -> the fields that it gives it, beside header and process."""
    events: dict[str, set[str]] = {}
    for path in sorted(path for root in probes() for path in root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Name(id="record") | ast.Attribute(attr="record" | "_record"),
                    args=[ast.Constant(value=str(kind))],
                ):
                    events.setdefault(kind, set()).update(_keywords(tree, node))
    return {kind: names - HEADER for kind, names in events.items()}


def _keywords(tree: ast.Module, call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg
        else:
            name = ast.unparse(keyword.value)
            unpacked = {*_keys(tree, name), *_passed_on(tree, name)}
            assert unpacked, f"**{name} in line {call.lineno}: it is not seen what it holds"
            yield from unpacked


def _keys(tree: ast.Module, name: str) -> Iterator[str]:
    """Keys of the dicts that a module assigns to this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and name in ast.unparse(node).partition(" = ")[0].split(", "):
            dicts = [part for part in ast.walk(node.value) if isinstance(part, ast.Dict)]
            yield from (
                str(key.value) for part in dicts for key in part.keys if isinstance(key, ast.Constant)
            )


def _passed_on(tree: ast.Module, name: str) -> Iterator[str]:
    """Keywords of the calls of a method that passes them on by this name, and is no recorder itself."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    methods = {f.name for f in functions if f.args.kwarg and f.args.kwarg.arg == name} - {"record", "_record"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)


def test_each_kind_and_each_field_is_written_and_declared() -> None:
    assert written() == {name: declared(kind) - {"pid"} for name, kind in KINDS.items()}


def test_the_probe_writes_the_schema_that_is_read() -> None:
    assert recorder.SCHEMA == LEDGER_SCHEMA


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_ledgers_have_declared_fields_only(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        assert entry.keys() - HEADER <= declared(KINDS[entry["event"]]), entry["event"]


def test_every_shape_of_the_module_is_a_kind_or_what_kinds_share() -> None:
    classes = [value for value in vars(ledger).values() if isinstance(value, type)]
    shapes = {value for value in classes if issubclass(value, Payload)}
    shared = {base for kind in KINDS.values() for base in kind.__mro__[1:]}
    assert shapes - set(KINDS.values()) <= shared


@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_field_stops_a_reader(kind: str) -> None:
    for value in DAMAGED:
        payload = payload_of(kind, dict.fromkeys(declared(KINDS[kind]), value))
        assert type(payload) is KINDS[kind]


def test_a_file_of_which_the_sum_is_damaged_is_not_the_others() -> None:
    files = {"a": {"sha256": "s", "size": 3}, "b": {"sha256": 4}, "c": 5}
    saved = payload_of("checkpoint_saved", {"files": files})
    assert isinstance(saved, CheckpointSaved)
    assert saved.files == {"a": SavedFile("s", 3), "b": SavedFile(None, None), "c": SavedFile(None, None)}


@pytest.mark.parametrize(
    ("values", "kept"), [({}, None), ({"num_to_keep": None}, "all"), ({"num_to_keep": 2.0}, 2)]
)
def test_all_checkpoints_are_kept_where_it_is_said(values: dict[str, object], kept: object) -> None:
    started = payload_of("run_started", values)
    assert isinstance(started, RunStarted)
    assert started.num_to_keep == kept


def test_of_a_kind_that_is_not_known_nothing_is_said() -> None:
    payload = payload_of("of_a_newer_lab", {"pid": 3, "uri": "s3://ray/c"})
    assert (type(payload), vars(payload)) == (Payload, {"pid": 3})
