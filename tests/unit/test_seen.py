"""The table of what of Ray Train is seen (docs/recovery.md) has a row for all of the pinned Ray Train."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import ray.train
from ray.train import collective

from tests.e2e.truths_scripts import ALL
from tests.unit.test_docs import sections

CONFIGURATIONS = (
    "RunConfig", "CheckpointConfig", "FailureConfig", "ScalingConfig", "ValidationConfig",
    "ValidationTaskConfig",
)  # fmt: skip
HELD = ("Result", "ReportedCheckpoint", "PreemptionInfo")
USED = ("Checkpoint", "UserCallback", "TrainContext")
FUNCTIONS = ("report", "get_checkpoint", "get_all_reported_checkpoints", "get_preemption_info")
CALLBACKS = {
    "lightning": ("lightning/_lightning_utils.py", "RayTrainReportCallback"),
    "huggingface": ("huggingface/transformers/_transformers_utils.py", "RayTrainReportCallback"),
    "xgboost": ("xgboost/_xgboost_utils.py", "RayReportCallback"),
    "lightgbm": ("lightgbm/_lightgbm_utils.py", "RayReportCallback"),
}
"""Library -> file below ray.train, and the class that takes the parameters."""


def rows() -> list[list[str]]:
    lines = sections("docs/recovery.md", "##")["What of Ray Train is seen"].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return cells[2:]


def parameters(name: str, thing: object) -> list[str]:
    names = [p for p in inspect.signature(thing).parameters if p != "self"]  # type: ignore[arg-type]
    return [f"{name}.{p}" for p in names] or [name]


def public(name: str) -> list[str]:
    return [f"{name}.{part}" for part in vars(getattr(ray.train, name)) if not part.startswith("_")]


def callback(library: str) -> list[str]:
    """Names of what the constructor of a callback takes; its own where it takes nothing by name.

    It is read as text: not every library is here.
    """
    place, name = CALLBACKS[library]
    tree = ast.parse((Path(ray.train.__file__).parent / place).read_text())
    made = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    init = next(n for n in made.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    own = f"{library}.RayTrainReportCallback"
    return [f"{own}.{argument.arg}" for argument in init.args.args if argument.arg != "self"] or [own]


def names() -> Iterator[str]:
    for function in FUNCTIONS:
        yield from parameters(function, getattr(ray.train, function))
    for name in CONFIGURATIONS:
        yield from parameters(name, getattr(ray.train, name))
    for name in HELD:
        fields = dataclasses.fields(getattr(ray.train, name))
        yield from (f"{name}.{field.name}" for field in fields if not field.name.startswith("_"))
    for name in (*USED, "Result"):
        yield from public(name)
    yield from ("Checkpoint.path", "Checkpoint.filesystem")  # which its constructor makes
    yield from (name for name in ray.train.__all__ if name.endswith("Error"))
    yield from (f"collective.{name}" for name in ("barrier", "broadcast_from_rank_zero"))
    for library in CALLBACKS:
        yield from callback(library)


def test_all_of_ray_train_that_touches_a_recovery_has_its_row() -> None:
    documented = [name for row in rows() for name in re.findall(r"`([\w.]+)`", row[0])]
    assert sorted(documented) == sorted({*names(), "ModelCheckpoint"})
    assert all(callable(getattr(collective, name)) for name in ("barrier", "broadcast_from_rank_zero"))


def test_a_script_that_a_row_names_is_tried() -> None:
    tried = {script.library for script in ALL}
    named = {script for row in rows() for script in row[3].split(", ") if script != "-"}
    assert named <= tried
    assert len(named) > 20
