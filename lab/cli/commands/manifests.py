"""lint, import: manifests of KubeRay and Kueue, checked and turned into a lab."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from lab.cli import documents, values
from lab.cli.commands.queue.files import NAMESPACE
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.exporting import HERE
from lab.cli.findings import counted, others, tell
from lab.errors import ManifestError
from lab.topology import Vendor


@click.command(cls=LabCommand)
@click.argument(
    "files", type=values.Place(), nargs=-1, required=True, metavar="FILE...",
    help="YAML files with manifests, or folders with such files; together they are one set.",
)  # fmt: skip
@NAMESPACE
@pass_app
def lint(app: App, files: tuple[Path, ...], namespace: str) -> None:
    """Check manifests of KubeRay and Kueue without a cluster.

    Says what would wait for ever and why: by fields, Kubernetes' own schemas, Ray's own readers, mistakes
    that users repeat, and quotas against what jobs ask for. Exits with 22 when something could not work;
    warnings and notes do not change that.
    """
    from lab.flows.kubernetes.lint import lint as check
    from lab.flows.kubernetes.manifests import texts_of

    report = check(texts_of(files), others(app), namespace)
    app.out.as_json(documents.linted(report))
    if not app.out.json_wanted:
        tell(app, report, whole=True)
        listed = ", ".join(f"{number} {kind}" for kind, number in report.objects) or "no object"
        app.out.line(f"{listed}: {counted(report)}")
    if report.errors:
        first = report.errors[0]
        more = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
        app.fail(ManifestError(f"{first}{more}", first.hint))


@click.command("import", cls=LabCommand)
@click.argument(
    "files", type=values.Place(), nargs=-1, required=True, metavar="FILE...",
    help="YAML files with a RayCluster, RayJob or RayService, or folders with such files.",
)  # fmt: skip
@NAMESPACE
@click.option("--cluster", type=values.Text(), metavar="NAME", help="Which one, where there are several.")
@click.option(
    "--gpu", type=click.Choice(HERE),
    help="GPUs of the lab here. [default: simulated where the cluster has some, else none]",
)  # fmt: skip
@click.option(
    "--output", type=values.Place(), metavar="DIR",
    help="A new folder for the lab's settings, its queues and the job's code. [default: only say it]",
)  # fmt: skip
@pass_app
def import_(
    app: App,
    files: tuple[Path, ...],
    namespace: str,
    cluster: str | None,
    gpu: str | None,
    output: Path | None,
) -> None:
    """Turn manifests of a cluster into a lab of the same shape.

    Reads a RayCluster, RayJob or RayService with its queues, and says how to start the lab, so that a
    cluster's trouble can be replayed here. Nothing is started.
    """
    from lab.flows.kubernetes.folder import refuse_taken, write_folder
    from lab.flows.kubernetes.imported import import_lab
    from lab.flows.kubernetes.manifests import texts_of

    if output is not None:
        refuse_taken(output)
    found = import_lab(texts_of(files), namespace, cluster or "")
    has = found.spec.gpu.vendor is not Vendor.NONE
    up = found.up(gpu or (Vendor.SIMULATED if has else Vendor.NONE).value)
    written = found.files()
    if output is not None:
        write_folder(output, written)
    steps = found.steps(output)
    if app.out.as_json(documents.imported(found, up, steps, output)):
        return
    app.out.line(f"{found.kind} {found.name}: {found.spec.settings}")
    for line in found.differs:
        app.out.line(f"  not the same: {line}")
    for step in (up, *steps):
        app.out.line(f"  $ {shlex.join(step)}")
    if output is None and (found.job is not None or found.workload is not None):
        app.out.note("--output DIR keeps its queues and the job's code")


COMMANDS = (lint, import_)
