"""Forks `python train.py`, where a `sitecustomize` calls it before anything else is imported.

A script imports Ray, torch and more, six to ten seconds of a core. In a process that is
about to run a script this module asks the node's fork server for a fork that runs it instead, with the same
arguments, environment, working directory and descriptors, and stands for it. `python -c`, `python -m`, an
interactive Python, one of another environment, and whatever `refusal` doubts, start in the ordinary way.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = ("train", "node")
"""Scripts are forked with torch imported, or else with Ray, which is 2 s of a core, and import the rest."""


def script_of(arguments: Sequence[str]) -> int:
    """Position of the script in `python ARGUMENT...`; 0 for none that could be forked."""
    for position, word in enumerate(arguments[1:], start=1):
        if word == "-u":
            continue
        return position if word.endswith(".py") and not word.startswith("-") else 0
    return 0


def wanted(arguments: Sequence[str], prefix: str) -> bool:
    """Tell whether a process with these arguments and `sys.prefix` should ask for a fork."""
    if sys.platform != "linux":
        return False
    position = script_of(arguments)
    if not position:
        return False
    path = os.path.realpath(arguments[position])
    return os.path.isfile(path) and not path.startswith(os.path.join(prefix, ""))


def hand_over(folder: str) -> None:
    """Become the launcher of a fork, if this process is to run a script and a server in `folder` forks it."""
    if not wanted(sys.orig_argv, sys.prefix) or any(os.isatty(number) for number in (0, 1, 2)):
        return
    from forkserver import launcher

    command = [sys.executable, *sys.orig_argv[1:]]
    request = launcher.describe(command, path=list(sys.path), flags=list(sys.flags))
    fork = launcher.first(folder, LEVELS, request)
    if fork is not None:
        launcher.stand_for(fork)
