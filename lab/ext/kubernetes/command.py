"""export: the lab written for Kubernetes, and for plain Compose."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lab.api.base import plain
from lab.cli import values
from lab.cli.commands.queue.files import NAMESPACE
from lab.cli.commands.submit import command_given, parameter_option, runtime_env_option, working_dir_option
from lab.cli.complete import recipe_names
from lab.cli.context import App, DashCommand, LabCommand, LabGroup, options, pass_app
from lab.cluster.submission import described
from lab.errors import LabDownError, ManifestError, OutputError, RefusedError
from lab.ext.kubernetes.documents import LEVELS, NOTE, WARNING, ExportDocument, Finding
from lab.host import environment
from lab.host.quantities import plural
from lab.runtime.spec import Asked
from lab.topology import MAX_WORKERS, REGION, GpuPlan, LabSpec, Vendor

if TYPE_CHECKING:
    from lab.ext.kubernetes.export.request import ExportRequest

GPUS = ("simulated", "nvidia", "amd", "none")

lab_options = options(
    click.option(
        "--gpu", type=click.Choice(GPUS),
        help="GPUs of the workers. [default: those of the lab when it is up]",
    ),
    click.option(
        "--workers", type=values.WholeNumber(1, MAX_WORKERS), metavar="N",
        help=f"Nodes that train. [default: those of the lab when it is up, else {LabSpec.workers}]",
    ),
    click.option(
        "--cpus-per-worker", type=values.WholeNumber(1, 1024), metavar="N",
        help="CPUs of each worker. [default: those of the lab when it is up, "
        f"else {LabSpec.cpus_per_worker}]",
    ),
    click.option(
        "--gcs-ft", is_flag=True,
        help="Keep the state of Ray's head in Redis. [default: as the lab when it is up]",
    ),
    click.option(
        "--stock-ray", is_flag=True,
        help="Stock Ray: without the lab's changes to how it trains. [default: as the lab when it is up]",
    ),
)  # fmt: skip
"""Give a command the settings of the lab that it writes."""
LAB_SETTINGS = ("gpu", "workers", "cpus_per_worker", "gcs_ft", "stock_ray")


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
@working_dir_option
@runtime_env_option
@lab_options
@click.option(
    "--memory-per-worker", "memory", type=values.MemorySize(), metavar="SIZE",
    help="Memory of each worker, such as 8Gi. [default: 4Gi, with a GPU 16Gi]",
)  # fmt: skip
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
    "--code", "code_source", type=click.Choice(("configmap", "image")), default="configmap",
    help="Where code comes from: ConfigMaps (the default), or an image that is built from the folder.",
)  # fmt: skip
@click.option(
    "--appwrapper", "app_wrapper", is_flag=True, help="Put it into an AppWrapper, which starts it again."
)
@click.option("--output", type=values.Place(), required=True, metavar="DIR", help="A new folder.")
@pass_app
def export_kubernetes(app: App, /, output: Path, **flags: Any) -> None:
    """Write the lab as manifests of KubeRay and Kueue, checked before they are written.

    Without a job it is a RayCluster, with one a RayJob that brings its own cluster. No cluster is needed.

    Exits with 22, and writes nothing, when a check finds that they could not work.
    """
    from lab.ext.kubernetes.export import export as make

    request = _request(app, **flags)
    environment.ensure("kubernetes", app.out.note)
    files, report = make(request)
    _tell(app, [finding for finding in report.findings if finding.level == WARNING])
    _write(app, output, files)


@export.command("compose", cls=LabCommand)
@lab_options
@click.option("--output", type=values.Place(), required=True, metavar="DIR", help="A new folder.")
@pass_app
def export_compose(app: App, /, output: Path, **settings: Any) -> None:
    """Write the lab as a folder for plain `docker compose`, on a machine without labctl."""
    from lab.ext.kubernetes.compose_folder import compose_folder

    _write(app, output, compose_folder(_current(app, **settings)))


def _write(app: App, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, and tell them."""
    write_folder(folder, files)
    if not app.out.as_json(plain(ExportDocument(str(folder), tuple(sorted(files))))):
        app.out.line(f"{folder}: {plural(len(files), 'file')}")
        app.out.note(f"next: {folder / 'README.md'} has the commands in their order")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder with these files, path -> content; scripts may be run.

    Raises RefusedError for one that holds something, OutputError when it cannot be written.
    """
    if folder.is_dir():
        if any(folder.iterdir()):
            raise RefusedError(f"{folder} is not empty", "name a new folder, or remove that one")
    elif folder.exists() or folder.is_symlink():
        raise RefusedError(f"{folder} is not a folder", "name a new one")
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix=f".{folder.name}.") as made:
            whole = Path(made) / folder.name
            for path, content in files.items():
                target = whole / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                if path.endswith(".sh"):
                    target.chmod(0o755)
            if folder.is_dir():
                folder.rmdir()
            os.replace(whole, folder)
    except OSError as error:
        raise OutputError(
            f"cannot write {error.filename or folder}: {error.strerror}", "nothing was written"
        ) from error


def _current(app: App, gpu: str | None, **settings: Any) -> LabSpec:
    """The lab as it is up, or the usual one, with these settings; of its GPUs only the vendor."""
    try:
        current = app.open().view.spec()
    except LabDownError:
        current = LabSpec(app.name)
    spec = Asked(**settings).over(current)
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
    **flags: Any,
) -> ExportRequest:
    """The request of these flags; what was left out is as usual. Raises UsageError, NotFoundError."""
    from lab.ext.kubernetes.export.request import ExportRequest, code_of, recipe_of

    spec = _current(app, **{name: flags.pop(name) for name in LAB_SETTINGS})
    storage, submission = storage.rstrip("/"), None
    if spec.gpu.vendor is Vendor.SIMULATED:
        app.out.note(
            "the lab's GPUs are simulated: the exported workers get none, unless --gpu names a vendor"
        )
        spec = replace(spec, gpu=GpuPlan(Vendor.NONE))
    command = command_given(recipe, parameters, runtime_env, working_dir)
    if recipe is not None:
        submission = recipe_of(recipe, values.settings(parameters), storage, spec.workers)
    elif command is not None:
        submission = described(command, working_dir, runtime_env=runtime_env)
    code = code_of(spec.name, submission) if submission else None
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

    environment.ensure("kubernetes", app.out.note)
    report = lint(texts_of(files), namespace)
    if not app.out.as_json(plain(report)):
        _tell(app, report.findings)
        if report.not_counted:
            app.out.line(f"not counted: {', '.join(report.not_counted)}")
        listed = ", ".join(f"{number} {kind}" for kind, number in report.objects.items()) or "no object"
        levels = [finding.level for finding in report.findings]
        counts = [plural(levels.count(level), level) for level in LEVELS if level in levels]
        app.out.line(f"{listed}: {', '.join(counts) or 'nothing found'}")
    try:
        report.refuse()
    except ManifestError as error:
        app.fail(error)


def _tell(app: App, findings: Iterable[Finding]) -> None:
    """Print findings: errors as results, the rest to stderr."""
    for finding in findings:
        hint = f" ({finding.hint})" if finding.hint else ""
        if finding.level == WARNING:
            app.out.warn(str(finding), finding.hint)
        else:
            say = app.out.note if finding.level == NOTE else app.out.line
            say(f"{finding.level}: {finding}{hint}")


COMMANDS = (export,)
