"""The course: lessons that check themselves, their data sets, and receipts of batches of a language model."""

from lab.extension import SHARE, Command, Extension

EXTENSION = Extension(
    "course",
    commands=(
        Command(
            SHARE,
            "lesson",
            "lab.ext.course.command",
            "Do the exercises of the course, and get their data sets.",
        ),
        Command(
            "",
            "class collect",
            "lab.ext.course.command",
            "Check the lesson reports of a folder against the lab, and keep what each person has passed.",
        ),
        Command(
            "",
            "jobs receipt",
            "lab.ext.course.batches",
            "Prove that a batch of inference lost no prompt, and answered none twice.",
        ),
        Command(
            "",
            "jobs lose-node",
            "lab.ext.course.batches",
            "Kill a node under a batch of inference, start it again, and show the receipt.",
        ),
    ),
    before_down=("lab.ext.course.lessons.run:before_down",),
    traces=("lab.ext.course.datasets:traces",),
    documents=("lab.ext.course.documents", "lab.ext.course.batch_documents"),
)
