"""Chaos: one fault after another while a job trains, by a plan that can be repeated; and what came of it."""

from lab.extension import BREAK, Command, Extension

EXTENSION = Extension(
    "chaos",
    commands=(
        Command(
            BREAK, "chaos", "lab.ext.chaos.command", "Break one thing after another, and judge each recovery."
        ),
    ),
    documents=("lab.ext.chaos.documents",),
)
