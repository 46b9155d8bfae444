"""Fast recovery: patches of Ray, a fork server, and the ladder that shows what each way takes."""

from pathlib import Path

from lab.extension import BREAK, Command, Extension
from lab.host.files import FORKSERVER

EXTENSION = Extension(
    "fast-recovery",
    commands=(
        Command(
            BREAK,
            "ladder",
            "lab.ext.fast_recovery.command",
            "Lose the same rank under six ways of recovery, side by side.",
        ),
    ),
    documents=("lab.ext.fast_recovery.documents",),
    probes=(Path(__file__).parent / "probe", FORKSERVER),
)
