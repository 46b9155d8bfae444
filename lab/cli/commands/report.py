"""report: the story of a training, as a page and pictures."""

from __future__ import annotations

from pathlib import Path

import click

from lab.cli import documents, values
from lab.cli.context import App, LabCommand, pass_app
from lab.errors import UnsupportedError, UsageError
from lab.host import environment
from lab.host.clock import WALL
from lab.lab import Lab

LAST_SECONDS, MOST_SECONDS = 900.0, 7 * 86_400.0
"""Time that dashboards show, unless said otherwise, and that Prometheus keeps."""


@click.command(cls=LabCommand)
@click.argument(
    "what", type=values.Text(), required=False, metavar="[RECEIPT|JOB]",
    help="A receipt (a file, or its name in the store) or a job. [default: the newest receipt]",
)  # fmt: skip
@click.option(
    "--output", type=values.Place(), metavar="DIR",
    help="Folder to write to. [default: raylab-report-JOB in the current folder]",
)  # fmt: skip
@click.option("--dashboards", is_flag=True, help="Draw Grafana's dashboards instead, from Prometheus.")
@click.option(
    "--last", type=values.Duration(most=MOST_SECONDS), metavar="TIME",
    help="With --dashboards: the time that is shown. [default: 15m]",
)  # fmt: skip
@pass_app
def report(app: App, what: str | None, output: Path | None, dashboards: bool, last: float | None) -> None:
    """Write what became of a fault or a job: a page with pictures.

    The page is complete in itself: it needs no network, and prints on A4. While the lab is down, a receipt in
    a file makes a report without curves.

    --dashboards draws every panel of the lab's dashboards into one page, for labs without Grafana.
    """
    from lab.flows import report as flow

    lab = app.open()
    if dashboards:
        if what is not None:
            raise UsageError("--dashboards shows the lab, not a receipt or a job", "leave one of them out")
        _dashboards(app, lab, output or Path("raylab-dashboards"), last or LAST_SECONDS)
        return
    if last is not None:
        raise UsageError("--last is only for --dashboards", "leave it out")
    subject = flow.find_subject(lab, what or "")
    data = flow.build_report(flow.read_evidence(lab, subject))
    environment.ensure("report", app.out.note)
    written = flow.write_report(data, output or Path(f"raylab-report-{subject.job}"))
    if app.out.as_json({"report": documents.report(data, written)}):
        return
    for line in written.missing:
        app.out.warn(line)
    app.out.line(f"{data.title}: job {data.job}")
    app.out.line(f"  {written.page}")
    for picture in written.pictures:
        app.out.line(f"  {picture}")


def _dashboards(app: App, lab: Lab, folder: Path, last: float) -> None:
    from lab.cluster.prometheus import Prometheus
    from lab.flows import report as flow

    url = lab.endpoints().prometheus
    if not url:
        raise UnsupportedError("this lab has no Prometheus", "put `prometheus` on PATH; then labctl up again")
    environment.ensure("report", app.out.note)
    end = WALL()
    page = flow.write_dashboards(Prometheus(url), folder, flow.Window(end - last, end), lab.name)
    if not app.out.as_json({"dashboards": {"page": str(page)}}):
        app.out.line(str(page))


COMMANDS = (report,)
