"""Ray's processes and the scripts of jobs are forked (the library `forkserver`): what the lab adds to that.

    python -m raylab_forks FOLDER [FORK...]

is the fork server of all nodes of a lab of plain processes; a node in a container makes its own
(`ray_start`). RAYLAB_FORK_FOLDER says where it listens.
"""

from __future__ import annotations

import os
import sys

from raylab_switches import OFF, PATCHES, active, turned_off

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping

    from forkserver.application import Application

FOLDER = "RAYLAB_FORK_FOLDER"
"""Variable of the folder with the sockets of the node's fork server; without it nothing is forked."""

LEARNT = "RAYLAB_FORK_LEARNT"
"""Variable of the file with the names of the modules that ranks of this lab have imported (`Learn`)."""

TRAIN = (
    "raylab_ledger.train",
    "raylab_compat.simulated_gpu",
    "raylab_recovery.checkpoint_guard",
    "raylab_recovery.elastic",
    "raylab_recovery.teardown",
    "raylab_recovery.rendezvous",
    "raylab_recovery.datasets",
    "raylab_recovery.single_puts",
    "raylab_recovery.lone_vote",
    "raylab_recovery.survivors",
    "raylab_recovery.kept_memory",
)
"""Modules of the lab that trainings import."""

READ_LATER = frozenset(
    {
        *("RAYLAB_SERVICE", "RAYLAB_SERVICE_NAME", "RAYLAB_RESUME_RUN", "RAYLAB_WORKERS_GRANTED"),
        *("RAYLAB_EACH_STEP", "RAYLAB_PERSON", "RAYLAB_STORAGE"),
        OFF,  # `doubt` compares what of it matters
        *("RAYLAB_REDIS_PASSWORD_FILE", "RAYLAB_FORK_SERVER_OF"),
    }
)
"""The lab's variables that do not count when a process starts."""

SWITCHED_AT_START = {patch.name for patch in PATCHES if not patch.callback or patch.name == "forks"}
"""Patches that change modules as a server imports them. The callbacks of the others ask in the fork."""


def doubt(wanted: Mapping[str, str], own: Mapping[str, str]) -> str:
    """The reason why a job that turns off what the server has done already is not forked; empty for none."""
    differs = turned_off(wanted) & SWITCHED_AT_START != turned_off(own) & SWITCHED_AT_START
    return f"another {OFF}" if differs else ""


def prepare() -> None:
    """Apply the lab's changes to a fork, by its own environment."""
    import sitecustomize

    sitecustomize.prepare()


def application() -> Application:
    """The lab, for its fork servers."""
    from forkserver.application import Application

    return Application(
        program=("-m", "raylab_forks"),
        modules=TRAIN,
        learnt=os.environ.get(LEARNT, ""),
        read_at_start=("RAYLAB_",),
        read_later=READ_LATER,
        doubt=doubt,
        prepare=prepare,
    )


def hand_over() -> None:
    """Leave what this process was started for to a fork of the node's fork server, where one does it."""
    if active("forks"):
        from forkserver import scripts

        scripts.hand_over(os.environ[FOLDER])


def follow() -> None:
    """Let psutil find forks where their launchers are."""
    if active("forks"):
        from forkserver import children
        from raylab_compat import import_hooks

        import_hooks.after_import(children.CHANGES)


if __name__ == "__main__":
    from forkserver import server

    server.main(sys.argv[1:], application())
