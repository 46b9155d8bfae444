"""The patches of Ray as a lab has them: from the table that its nodes read, lab/probe/raylab_switches.py."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from functools import cache
from typing import Any

from lab.errors import UsageError
from lab.host.files import PROBE
from lab.topology import LabSpec

TABLE = PROBE / "raylab_switches.py"

OFF_VARIABLE = "RAYLAB_PATCHES_OFF"
"""Environment variable of nodes, and of who starts them: names of patches that are off, with commas."""

CALLBACKS_VARIABLE = "RAY_TRAIN_CALLBACKS"

RECORDER = "raylab_ledger.train.Ledger"
"""The callback that writes the ledger: it changes nothing, and stays in every lab."""


@cache
def patches() -> tuple[Any, ...]:
    """PATCHES of the table; `raylab_switches.Patch` says what each entry has."""
    found: tuple[Any, ...] = runpy.run_path(str(TABLE))["PATCHES"]
    return found


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
