"""The report: what happened to a training, as one HTML page with pictures, to look at and to print."""

from lab.extension import BREAK, Command, Extension

EXTENSION = Extension(
    "report",
    commands=(
        Command(
            BREAK,
            "report",
            "lab.ext.report.command",
            "Write what became of a fault or a job: a page with pictures.",
        ),
    ),
    documents=("lab.ext.report.documents",),
)
