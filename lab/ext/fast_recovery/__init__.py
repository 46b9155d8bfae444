"""Fast recovery: the ladder, which loses the same rank under one way of recovery after the other."""

from lab.extension import BREAK, Command, Extension

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
)
