"""Health of GPUs and nodes: the board of what their agents report, and faults that it notices."""

from pathlib import Path

from lab.extension import LOOK, Command, Extension

EXTENSION = Extension(
    "health",
    commands=(
        Command(
            LOOK,
            "health",
            "lab.ext.health.command",
            "Show the health of GPUs and nodes, or the alerts that fire.",
        ),
    ),
    faults=("lab.ext.health.faults",),
    queue_parts=("lab.ext.health.board:Board",),
    probes=(Path(__file__).parent / "probe",),
)
