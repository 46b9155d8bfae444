"""The patches of Ray as a lab has them: from the table that its nodes read, lab/probe/raylab_switches.py."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from lab import extension
from lab.errors import PatchError, UsageError
from lab.topology import LabSpec

UNFIT_VARIABLE = "RAYLAB_PATCHES_UNFIT"
"""Environment variable of nodes: names of patches that do not fit their Ray, with commas."""

OFF_VARIABLE = "RAYLAB_PATCHES_OFF"
"""Environment variable of nodes, and of who starts them: names of patches that are off, with commas."""

CALLBACKS_VARIABLE = "RAY_TRAIN_CALLBACKS"

RECORDER = "raylab_ledger.train.Ledger"
"""The callback that writes the ledger: it changes nothing, and stays in every lab."""


@cache
def patches() -> tuple[Any, ...]:
    """PATCHES of the table; `raylab_switches.Patch` says what each entry has."""
    return tuple(_probe("raylab_switches").PATCHES)


def callbacks() -> str:
    """The value of RAY_TRAIN_CALLBACKS, in every lab: the callback of a patch that is off does nothing."""
    return ",".join([RECORDER, *(patch.callback for patch in patches() if patch.callback)])


def switched_off(spec: LabSpec, environ: Mapping[str, str]) -> str:
    """The value of RAYLAB_PATCHES_OFF in a lab: what its caller's says, and with stock Ray all that can be.

    Raises UsageError for a name that no patch has.
    """
    asked = {name.strip() for name in environ.get(OFF_VARIABLE, "").split(",")} - {""}
    names = [patch.name for patch in patches()]
    unknown = sorted(asked.difference(names))
    if unknown:
        raise UsageError(
            f"{OFF_VARIABLE}: there is no patch {unknown[0]!r}", f"there are: {', '.join(names)}"
        )
    stock = {patch.name for patch in patches() if spec.stock_ray and not patch.stays}
    return ",".join(name for name in names if name in asked | stock)


@cache
def unfit() -> Mapping[str, str]:
    """The patches that do not fit the Ray of labctl's own environment -> what is another than they expect.

    It reads Ray's source, and takes some milliseconds.
    """
    problems: dict[str, str] = _probe("raylab_expectations").unfit()
    return problems


def _probe(name: str) -> Any:
    """A module that the nodes import from their own roots, which are on labctl's path for no longer."""
    path, sys.path = sys.path, [*map(str, extension.probes()), *sys.path]
    try:
        return import_module(name)
    finally:
        sys.path = path


def check_closed(problems: Mapping[str, str], wanted: Collection[str]) -> None:
    """Refuse to start where a `wanted` patch does not fit and something would be open. Raises PatchError."""
    for patch in patches():
        if patch.exposes and patch.name in wanted and patch.name in problems:
            raise misfit(patch.name, problems[patch.name])


def misfit(name: str, problem: str) -> PatchError:
    """The error for a patch without which no node starts."""
    (reason,) = (patch.exposes for patch in patches() if patch.name == name)
    return PatchError(
        f"the patch {name} does not fit the installed Ray ({problem}), and without it {reason}",
        "use the Ray that labctl is made for: unset LABCTL_NO_VENV; in containers `labctl images build`",
    )


_SAID = re.compile(r"the patch (\w+) does not fit Ray \S+: (.+?)(?:; without it .*)?$")


def said_unfit(lines: Iterable[str]) -> PatchError | None:
    """The error for a node that has written so, and has not started; None for any other output."""
    said: dict[str, str] = {m[1]: m[2] for line in lines if (m := _SAID.search(line))}
    names = [patch.name for patch in patches() if patch.exposes and patch.name in said]
    return misfit(names[0], said[names[0]]) if names else None
