"""export: the lab written for Kubernetes, and for plain Compose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lab.cli import values
from lab.cli.commands.queue.files import NAMESPACE
from lab.cli.commands.submit import command_given, parameter_option, runtime_env_option
from lab.cli.complete import recipe_names
from lab.cli.context import App, DashCommand, LabCommand, LabGroup, options, pass_app
from lab.errors import LabDownError, ManifestError, SetupError, UsageError
from lab.ext.kubernetes.documents import findings
from lab.host import environment
from lab.host.quantities import plural
from lab.runtime.spec import Asked
from lab.topology import MAX_WORKERS, REGION, GpuPlan, LabSpec, Vendor

if TYPE_CHECKING:
    from lab.ext.kubernetes.documents import ExportDocument, LintDocument
    from lab.ext.kubernetes.export.request import ExportRequest
    from lab.ext.kubernetes.lint import LintReport, Validate

STDOUT = "-"
CODE_SOURCES = ("configmap", "image")
GPUS = ("nvidia", "amd", "none")

size_options = options(
    click.option(
        "--workers", type=values.WholeNumber(1, MAX_WORKERS), metavar="N",
        help=f"Nodes that train. [default: those of the lab when it is up, else {LabSpec.workers}]",
    ),
    click.option(
        "--cpus-per-worker", type=values.WholeNumber(1, 1024), metavar="N",
        help="CPUs of each worker. [default: those of the lab when it is up, "
        f"else {LabSpec.cpus_per_worker}]",
    ),
)  # fmt: skip
"""Give a command the number and the size of the workers."""

ray_options = options(
    click.option(
        "--gcs-ft", is_flag=True,
        help="Keep the state of Ray's head in Redis. [default: as the lab when it is up]",
    ),
    click.option(
        "--stock-ray", is_flag=True,
        help="Stock Ray: without the lab's changes to how it trains. [default: as the lab when it is up]",
    ),
)  # fmt: skip
"""Give a command the kind of Ray."""


@click.group(cls=LabGroup)
def export() -> None:
    """Write the lab for Kubernetes or Compose; check manifests. No lab has to run."""


@export.command("kubernetes", cls=DashCommand)
@click.argument(
    "recipe", type=values.Text(), required=False, metavar="[RECIPE | -- COMMAND...]",
    shell_complete=recipe_names,
    help="A job that goes along: a recipe of workspace/, or a command after --.",
)  # fmt: skip
@parameter_option
@click.option(
    "--working-dir", type=values.Place(), metavar="DIR",
    help="Folder of a command, whose files go along. [default: the current one]",
)  # fmt: skip
@runtime_env_option
@click.option(
    "--gpu", type=click.Choice(GPUS), help="GPUs of the workers. [default: those of the lab when it is up]"
)
@size_options
@click.option(
    "--memory-per-worker", "memory", type=values.MemorySize(), metavar="SIZE",
    help="Memory of each worker, such as 8Gi. [default: 4Gi, with a GPU 16Gi]",
)  # fmt: skip
@ray_options
@click.option(
    "-n", "--namespace", type=values.Text(), metavar="NAMESPACE",
    help="The namespace. [default: the lab's name]",
)  # fmt: skip
@click.option(
    "--image", type=values.Text(), metavar="REF",
    help="Image of the nodes, with the lab's version of Ray. [default: the lab's own]",
)  # fmt: skip
@click.option(
    "--storage", type=values.Text(), default="s3://ray", show_default=True, metavar="s3://BUCKET[/FOLDER]",
    help="Where checkpoints and ledgers go.",
)  # fmt: skip
@click.option(
    "--endpoint", type=values.Text(), metavar="URL",
    help="Address of the object store, as the nodes reach it. [default: AWS' own]",
)  # fmt: skip
@click.option(
    "--region", type=values.Text(), default=REGION, show_default=True, metavar="REGION",
    help="Region of the object store.",
)  # fmt: skip
@click.option(
    "--queue", type=values.Text(), metavar="QUEUE",
    help="LocalQueue of Kueue that it is submitted to. [default: without Kueue]",
)  # fmt: skip
@click.option(
    "--queues", "queue_files", type=values.Place(dir_okay=False), multiple=True, metavar="FILE",
    help="Queues and quotas that go along, objects of Kueue. [default: a queue that is just large enough]",
)  # fmt: skip
@click.option("--priority", type=values.Text(), metavar="CLASS", help="A WorkloadPriorityClass of --queues.")
@click.option(
    "--runtime-class", type=values.Text(), metavar="NAME",
    help="runtimeClassName of workers with a GPU, where NVIDIA's is not the default. Usually: nvidia.",
)  # fmt: skip
@click.option(
    "--code", "code_source", type=click.Choice(CODE_SOURCES), default=CODE_SOURCES[0], show_default=True,
    help="Where code comes from: ConfigMaps, or an image that is built from the folder.",
)  # fmt: skip
@click.option(
    "--appwrapper", "app_wrapper", is_flag=True, help="Put it into an AppWrapper, which starts it again."
)
@click.option(
    "--output", type=values.Text(), required=True, metavar="DIR|-",
    help="A new folder, or `-` to print the manifests.",
)  # fmt: skip
@pass_app
def export_kubernetes(app: App, /, output: str, **flags: Any) -> None:
    """Write the lab as manifests of KubeRay and Kueue, checked before they are written.

    Without a job it is a RayCluster, with one a RayJob that brings its own cluster. No cluster is needed.

    Exits with 22, and writes nothing, when a check finds that they could not work.
    """
    from lab.ext.kubernetes.export import export as make
    from lab.ext.kubernetes.export.around import ray_dashboards
    from lab.ext.kubernetes.folder import refuse_taken, write_folder

    if output == STDOUT and app.out.json_wanted:
        raise UsageError("--json and --output - cannot be used together", "name a folder")
    request = _request(app, **flags)
    folder = Path(output)
    if output != STDOUT:
        refuse_taken(folder)
    exported = make(request, schemas(app), ray_dashboards())
    tell(app, exported.report, whole=False)
    for note in exported.notes:
        app.out.note(note)
    if output == STDOUT:
        app.out.raw_line(exported.stream().rstrip("\n"))
        return
    write_folder(folder, exported.files)
    document: ExportDocument = {
        "schema": "export/1", "folder": str(folder), "files": sorted(exported.files),
        **findings(exported.report),
    }  # fmt: skip
    if app.out.as_json(document):
        return
    for path in sorted(exported.files):
        if not path.startswith("image/"):
            app.out.line(str(folder / path))
    app.out.note(f"next: {folder / 'README.md'} has the commands in their order")


@export.command("compose", cls=LabCommand)
@click.option(
    "--gpu", type=click.Choice(("simulated", *GPUS)),
    help="GPUs of the workers. [default: those of the lab when it is up]",
)  # fmt: skip
@size_options
@ray_options
@click.option("--output", type=values.Place(), required=True, metavar="DIR", help="A new folder.")
@pass_app
def export_compose(
    app: App,
    gpu: str | None,
    workers: int | None,
    cpus_per_worker: int | None,
    gcs_ft: bool,
    stock_ray: bool,
    output: Path,
) -> None:
    """Write the lab as a folder for plain `docker compose`, on a machine without labctl."""
    from lab.ext.kubernetes.compose_folder import compose_folder
    from lab.ext.kubernetes.folder import write_folder

    asked = Asked(workers=workers, cpus_per_worker=cpus_per_worker, gcs_ft=gcs_ft, stock_ray=stock_ray)
    files = compose_folder(_current(app, asked, gpu))
    write_folder(output, files)
    if not app.out.as_json({"schema": "export/1", "folder": str(output), "files": sorted(files)}):
        app.out.line(f"{output}: {plural(len(files), 'file')}")
        app.out.note(f"next: {output / 'README.md'} has the commands in their order")


def _current(app: App, settings: Asked, gpu: str | None) -> LabSpec:
    """The lab as it is up, or the usual one, with these settings; of its GPUs only the vendor."""
    try:
        current = app.open().view.spec()
    except LabDownError:
        current = LabSpec(app.name)
    spec = settings.over(current)
    return replace(spec, gpu=GpuPlan(Vendor(gpu) if gpu else spec.gpu.vendor))


def _request(
    app: App,
    *,
    recipe: str | None,
    parameters: tuple[str, ...],
    working_dir: Path | None,
    runtime_env: Path | None,
    storage: str,
    endpoint: str | None,
    gpu: str | None,
    **flags: Any,
) -> ExportRequest:
    """The request of these flags; what was left out is as usual. Raises UsageError, NotFoundError."""
    from lab.ext.kubernetes.export.request import ExportRequest, portable, recipe_code, script_code

    size = {name: flags.pop(name) for name in ("workers", "cpus_per_worker", "gcs_ft", "stock_ray")}
    current = _current(app, Asked(**size), gpu)
    if current.gpu.vendor is Vendor.SIMULATED:
        app.out.note(
            "the lab's GPUs are simulated: the exported workers get none, unless --gpu names a vendor"
        )
    spec, storage, code = portable(current), storage.rstrip("/"), None
    command = command_given(recipe, parameters, runtime_env, working_dir)
    if recipe is not None:
        code = recipe_code(spec.name, recipe, values.settings(parameters), storage, spec.workers)
    elif command is not None:
        code = script_code(spec.name, command, working_dir, runtime_env)
    flags = {name: value for name, value in flags.items() if value is not None}
    return ExportRequest(spec, storage=storage, endpoint=(endpoint or "").rstrip("/"), code=code, **flags)


@export.command(cls=LabCommand)
@click.argument(
    "files", type=values.Place(), nargs=-1, required=True, metavar="FILE...",
    help="YAML files with manifests, or folders with such files; together they are one set.",
)  # fmt: skip
@NAMESPACE
@pass_app
def check(app: App, files: tuple[Path, ...], namespace: str) -> None:
    """Check manifests of KubeRay and Kueue without a cluster.

    Says what their API servers would refuse, by the schemas of Kubernetes, KubeRay and Kueue, and which job
    would wait for ever, by quotas against what it asks for. Exits with 22 when there is an error; warnings
    and notes do not change that.
    """
    from lab.ext.kubernetes.lint import lint
    from lab.ext.kubernetes.manifests import texts_of

    report = lint(texts_of(files), schemas(app), namespace)
    document: LintDocument = {"schema": "lint/1", "good": not report.errors, **findings(report)}
    app.out.as_json(document)
    if not app.out.json_wanted:
        tell(app, report, whole=True)
        if report.not_counted:
            app.out.line(f"not counted: {', '.join(report.not_counted)}")
        listed = ", ".join(f"{number} {kind}" for kind, number in report.objects) or "no object"
        app.out.line(f"{listed}: {counted(report)}")
    if report.errors:
        first = report.errors[0]
        more = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
        app.fail(ManifestError(f"{first}{more}", first.hint))


def schemas(app: App) -> Validate | None:
    """Kubernetes' schemas; kubernetes-validate is installed when it is first needed, if it can be."""
    from lab.ext.kubernetes.lint.schemas import validator

    try:
        environment.ensure("kubernetes", app.out.note)
    except SetupError as error:
        app.out.warn(error.message, error.hint)
    return validator()


def tell(app: App, report: LintReport, *, whole: bool) -> None:
    """Print findings: errors as results, the rest to stderr; of what was just made only the warnings."""
    for finding in report.findings:
        if finding.level == "warning":
            app.out.warn(str(finding), finding.hint)
        elif finding.level == "note" and whole:
            app.out.note(f"note: {finding}{f' ({finding.hint})' if finding.hint else ''}")
        elif whole:
            app.out.line(f"error: {finding}{f' ({finding.hint})' if finding.hint else ''}")
    for words in report.not_asked:
        app.out.warn(f"not asked: {words}")


def counted(report: LintReport) -> str:
    """Describe in words how much was found."""
    levels = [finding.level for finding in report.findings]
    counts = [plural(levels.count(level), level) for level in ("error", "warning", "note") if level in levels]
    return ", ".join(counts) or "nothing found"


COMMANDS = (export,)
