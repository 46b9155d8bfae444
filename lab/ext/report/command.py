"""report: the story of a training, as a page and pictures."""

from __future__ import annotations

from pathlib import Path

import click

from lab.api.base import plain
from lab.cli import values
from lab.cli.context import App, LabCommand, pass_app
from lab.host import environment


@click.command(cls=LabCommand)
@click.argument(
    "what", type=values.Text(), required=False, metavar="[RECEIPT|JOB]",
    help="A receipt (a file, or its name in the store) or a job. [default: the newest receipt]",
)  # fmt: skip
@click.option(
    "--output", type=values.Place(), metavar="DIR",
    help="Folder to write to. [default: raylab-report-JOB in the current folder]",
)  # fmt: skip
@pass_app
def report(app: App, what: str | None, output: Path | None) -> None:
    """Write what became of a fault or a job: a page with pictures.

    The page is complete in itself: it needs no network, and prints on A4. While the lab is down, a receipt in
    a file makes a report without curves.
    """
    from lab.ext.report.build import build_report
    from lab.ext.report.find import find_subject, read_evidence
    from lab.ext.report.page import write_report

    lab = app.open()
    subject = find_subject(lab, what or "")
    data = build_report(read_evidence(lab, subject))
    environment.ensure("report", app.out.note)
    written = write_report(data, output or Path(f"raylab-report-{subject.job}"))
    if app.out.as_json({"report": plain(written)}):
        return
    for line in written.missing:
        app.out.warn(line)
    app.out.line(f"{data.title}: job {data.job}")
    app.out.line(f"  {written.page}")
    for picture in written.pictures:
        app.out.line(f"  {picture}")


COMMANDS = (report,)
