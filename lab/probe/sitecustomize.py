"""Runs as each Python process of nodes, jobs and JupyterLab begins, before the script: it is on PYTHONPATH.

It lets scripts run unchanged that were written for a machine with GPUs, with the package `lightning`, and
with Food-11 at /mnt/Food-11. It takes a millisecond, imports no library, and never raises.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from typing import Any


def prepare() -> None:
    """Everything that the lab changes in a process."""
    from raylab_compat import (
        accelerator,
        food11,
        lightning_alias,
        outside,
        resume,
        tuned_trainer,
    )
    from raylab_patches import listeners, outage, pip_environments

    lightning_alias.install()
    accelerator.install()
    pip_environments.install()
    listeners.install()
    outside.install()
    outage.install()
    resume.install()
    tuned_trainer.install()
    food11.settle(os.environ)
    if first := _first():
        first.follow()


def chain(here: str) -> None:
    """Run the next `sitecustomize` on the path, such as a distribution's, which the file `here` hides."""
    from importlib.machinery import PathFinder

    elsewhere = [entry for entry in sys.path if not _holds(entry, here)]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


def _holds(folder: str, file: str) -> bool:
    """True if this very file is the folder's `sitecustomize`, a link to it included, as in a ConfigMap."""
    return os.path.realpath(os.path.join(folder, "sitecustomize.py")) == file


def _first() -> Any:
    """The module that comes first in each process, such as the fork server's; None for none."""
    name = os.environ.get("RAYLAB_FIRST")
    return import_module(name) if name else None


try:
    if module := _first():  # it may leave what this process was started for to another
        module.hand_over()
    prepare()
except Exception as error:
    print(f"raylab: scripts may need changes to run here: {error!r}", file=sys.stderr)
chain(os.path.realpath(__file__))
