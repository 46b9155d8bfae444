"""queue check, queue simulate: YAML files of Kueue, without a lab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kueue.model import quotas
from kueue.quantity import shown
from kueue.reading import Read
from kueue.reading.nodes import SUBDOMAIN, Problem
from lab.cli import values
from lab.cli.context import App, LabCommand, pass_app
from lab.errors import OutputError, UsageError
from lab.host import environment

if TYPE_CHECKING:
    from kueue.simulate import Simulation

CHECK_SCHEMA = "queue-check/1"
DEFAULT_NAMESPACE = "default"
MAX_CYCLES = 1_000_000
MAX_UNTIL = 10 * 366 * 24 * 3600.0
FILES = click.argument(
    "files", type=values.Place(dir_okay=False), nargs=-1, required=True, metavar="FILE...",
    help="YAML files with objects of Kueue; together they are one set.",
)  # fmt: skip
NAMESPACE = click.option(
    "-n", "--namespace", type=values.Text(), default=DEFAULT_NAMESPACE, metavar="NAMESPACE",
    help=f"Namespace of objects that name none. [default: {DEFAULT_NAMESPACE}]",
)  # fmt: skip


@click.command(cls=LabCommand)
@FILES
@NAMESPACE
@click.option("--yaml", is_flag=True, help="Print what was understood as Kueue's v1beta2.")
@pass_app
def check(app: App, files: tuple[Path, ...], namespace: str, yaml: bool) -> None:
    """Read YAML files of Kueue, and say what is wrong or what was understood.

    Exits with 2 when anything is wrong.
    """
    if yaml and app.out.json_wanted:
        raise UsageError("--json and --yaml cannot be used together", "choose one")
    read = _read(app, files, namespace)
    if yaml:
        from kueue.writing import as_yaml, objects

        app.out.raw_line(as_yaml(objects(read.setup, read.workloads)).rstrip("\n"))
        return
    if app.out.json_wanted:
        app.out.document(
            {
                "schema": CHECK_SCHEMA,
                "understood": counts(read),
                "warnings": [problem(warning) for warning in read.warnings],
            }
        )
        return
    for line in understood(read):
        app.out.line(line)


@click.command(cls=LabCommand)
@FILES
@NAMESPACE
@click.option(
    "--cycles", type=values.WholeNumber(1, MAX_CYCLES), metavar="N",
    help="Run this many scheduling cycles only, at the start, with all workloads there.",
)  # fmt: skip
@click.option(
    "--until", type=values.Duration(most=MAX_UNTIL), metavar="TIME",
    help="Stop this long after the start. [default: when nothing more happens]",
)  # fmt: skip
@click.option(
    "--html", type=values.Place(dir_okay=False), metavar="FILE",
    help="Write a page with a picture: who had what when, queue by queue.",
)  # fmt: skip
@pass_app
def simulate(
    app: App,
    files: tuple[Path, ...],
    namespace: str,
    cycles: int | None,
    until: float | None,
    html: Path | None,
) -> None:
    """Let workloads through queues on a virtual clock, and say who is admitted, preempted or waits, and why.

    The files hold objects of Kueue. A Workload runs as long as its annotation raylab.io/duration says, or for
    ever; one that is preempted goes on later where it was.
    """
    if cycles is not None and until is not None:
        raise UsageError("--cycles and --until cannot be used together", "name one end")
    if html is not None:
        _check_page(html, files)
    read = _read(app, files, namespace)
    from kueue.simulate import endless
    from kueue.simulate import simulate as run

    if cycles is None and until is None and (name := endless(read.setup, read.workloads)):
        raise UsageError(
            f"{name} is never ready and may be tried again for ever: the simulation has no end",
            "give --until, or a backoffLimitCount in waitForPodsReady.requeuingStrategy",
        )
    result = run(read.setup, read.workloads, cycles=cycles, until=until)
    for moment in sorted(result.engine.restless):
        app.out.warn(f"after {moment - result.start:g} s workloads preempted each other without end")
    if html is not None:
        _write_page(app, html, result)
    if app.out.json_wanted:
        from kueue.trace import document

        app.out.document(document(result), compact=True)
        return
    from kueue.story import story

    for line in story(result):
        app.out.line(line)


def check_namespace(namespace: str) -> None:
    """Refuse what is no name of a namespace. Raises UsageError."""
    if not SUBDOMAIN.fullmatch(namespace):
        raise UsageError(
            f"--namespace {namespace!r}: not a name", "write lower case letters, digits, '-' and '.'"
        )


def _read(app: App, files: Sequence[Path], namespace: str) -> Read:
    """Read the files. What is wrong in them is told, all of it in the JSON too, and ends the command."""
    from lab.flows.queues.files import read_files

    check_namespace(namespace)
    read = read_files(files, namespace)
    for warning in read.warnings:
        app.out.warn(str(warning), warning.hint)
    if not read.errors:
        return read
    first, *rest = read.errors
    for warning in rest:
        app.out.ask(f"{warning}{f' ({warning.hint})' if warning.hint else ''}")
    more = f" (and {len(rest)} more)" if rest else ""
    error = UsageError(f"{first}{more}", first.hint)
    app.out.complain(error, {"problems": [problem(error) for error in read.errors]})
    raise click.exceptions.Exit(error.exit_code)


def _check_page(path: Path, files: Sequence[Path]) -> None:
    """Refuse, before anything is simulated, a page that would block or replace what is simulated."""
    if not path.exists():
        return
    if not path.is_file():
        raise UsageError(f"--html {path}: not a regular file", "name a new file")
    for file in files:
        if file.exists() and path.samefile(file):
            raise UsageError(f"--html {path}: this is a file to be simulated", "name another one")


def _write_page(app: App, path: Path, result: Simulation) -> None:
    from lab.flows.queues.page import page, write

    environment.ensure("report", app.out.note)
    text = page(result)
    try:
        write(path, text)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    app.out.note(f"wrote {path}")


# Words


def counts(read: Read) -> dict[str, int]:
    """Kind -> how many were read."""
    setup = read.setup
    classes = [priority_class.pods for priority_class in setup.priority_classes]
    return {
        "ResourceFlavor": len(setup.flavors),
        "Cohort": len(setup.cohorts),
        "ClusterQueue": len(setup.cluster_queues),
        "LocalQueue": len(setup.local_queues),
        "WorkloadPriorityClass": classes.count(False),
        "PriorityClass": classes.count(True),
        "Workload": len(read.workloads),
    }


def problem(item: Problem) -> dict[str, object]:
    """A problem as JSON."""
    return {
        "file": item.file, "line": item.line, "path": item.path, "message": item.message, "hint": item.hint,
    }  # fmt: skip


def understood(read: Read) -> list[str]:
    """Describe what was read, in lines."""
    lines = [f"{kind}: {number}" for kind, number in counts(read).items() if number]
    for cluster_queue in read.setup.cluster_queues.values():
        place = f" in cohort {cluster_queue.cohort}" if cluster_queue.cohort else ""
        lines.append(f"ClusterQueue {cluster_queue.name}{place}, {cluster_queue.strategy}")
        for (flavor, resource), quota in quotas(cluster_queue.groups):
            limits = [
                f", {word} {shown(resource, limit)}"
                for word, limit in (("borrows at most", quota.borrowing), ("lends at most", quota.lending))
                if limit is not None
            ]
            lines.append(f"  {flavor}: {shown(resource, quota.nominal)} {resource}{''.join(limits)}")
        doors = [
            f"{door.namespace}/{door.name}"
            for door in read.setup.local_queues.values()
            if door.cluster_queue == cluster_queue.name
        ]
        lines.append(f"  used by: {', '.join(doors) or 'no LocalQueue'}")
    return lines
