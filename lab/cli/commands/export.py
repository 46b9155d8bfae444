"""export: the lab written for Kubernetes, and for plain Compose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import documents, values
from lab.cli.commands.manifests import check, others, tell
from lab.cli.commands.submit import command_given, parameter_option, runtime_env_option
from lab.cli.complete import recipe_names
from lab.cli.context import App, DashCommand, LabCommand, LabGroup, options, pass_app
from lab.errors import LabDownError, UsageError
from lab.host.quantities import plural
from lab.runtime.spec import Asked
from lab.topology import MAX_WORKERS, REGION, GpuPlan, LabSpec, Vendor

if TYPE_CHECKING:
    from lab.flows.kubernetes.export.wanted import Code

STDOUT = "-"
SCHEMA = "export/1"
CODE = ("configmap", "image")
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
    "--queues", type=values.Place(dir_okay=False), multiple=True, metavar="FILE",
    help="Queues and quotas that go along, objects of Kueue. [default: a queue that is just large enough]",
)  # fmt: skip
@click.option("--priority", type=values.Text(), metavar="CLASS", help="A WorkloadPriorityClass of --queues.")
@click.option(
    "--runtime-class", type=values.Text(), metavar="NAME",
    help="runtimeClassName of workers with a GPU, where NVIDIA's is not the default. Usually: nvidia.",
)  # fmt: skip
@click.option(
    "--code", type=click.Choice(CODE), default=CODE[0], show_default=True,
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
def export_kubernetes(
    app: App,
    recipe: str | None,
    parameters: tuple[str, ...],
    working_dir: Path | None,
    runtime_env: Path | None,
    gpu: str | None,
    workers: int | None,
    cpus_per_worker: int | None,
    memory: int | None,
    gcs_ft: bool,
    stock_ray: bool,
    namespace: str | None,
    image: str | None,
    storage: str,
    endpoint: str | None,
    region: str,
    queue: str | None,
    queues: tuple[Path, ...],
    priority: str | None,
    runtime_class: str | None,
    code: str,
    app_wrapper: bool,
    output: str,
) -> None:
    """Write the lab as manifests of KubeRay and Kueue, checked before they are written.

    Without a job it is a RayCluster, with one a RayJob that brings its own cluster. No cluster is needed.

    Exits with 22, and writes nothing, when a check finds that they could not work.
    """
    from lab.flows.kubernetes.export import Wanted
    from lab.flows.kubernetes.export import export as make
    from lab.flows.kubernetes.folder import refuse_taken, write_folder

    if output == STDOUT and app.out.json_wanted:
        raise UsageError("--json and --output - cannot be used together", "name a folder")
    settings = Asked(workers=workers, cpus_per_worker=cpus_per_worker, gcs_ft=gcs_ft, stock_ray=stock_ray)
    spec = _spec(app, settings, gpu)
    storage = storage.rstrip("/")
    wanted = Wanted(
        spec,
        namespace=namespace or "",
        image=image or "",
        storage=storage,
        endpoint=(endpoint or "").rstrip("/"),
        region=region,
        memory=memory or 0,
        queue=queue or "",
        priority=priority or "",
        runtime_class=runtime_class or "",
        app_wrapper=app_wrapper,
        in_image=code == CODE[1],
        code=_job(spec, recipe, parameters, working_dir, runtime_env, storage),
    )
    folder = Path(output)
    if output != STDOUT:
        refuse_taken(folder)
    exported = make(wanted, queues, others(app))
    tell(app, exported.report, whole=False)
    for note in exported.notes:
        app.out.note(note)
    if output == STDOUT:
        app.out.raw_line(exported.stream().rstrip("\n"))
        return
    write_folder(folder, exported.files)
    if app.out.as_json(documents.exported(folder, tuple(exported.files), exported.report)):
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
    from lab.flows.compose_folder import compose_folder
    from lab.flows.kubernetes.folder import write_folder

    asked = Asked(workers=workers, cpus_per_worker=cpus_per_worker, gcs_ft=gcs_ft, stock_ray=stock_ray)
    files = compose_folder(_current(app, asked, gpu))
    write_folder(output, files)
    if not app.out.as_json({"schema": SCHEMA, "folder": str(output), "files": sorted(files)}):
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


def _spec(app: App, settings: Asked, gpu: str | None) -> LabSpec:
    """The lab that is written, without what belongs to this machine."""
    from lab.flows.kubernetes.export.wanted import portable

    spec = _current(app, settings, gpu)
    if spec.gpu.vendor is Vendor.SIMULATED:
        app.out.note(
            "the lab's GPUs are simulated: the exported workers get none, unless --gpu names a vendor"
        )
    return portable(spec)


def _job(
    spec: LabSpec,
    recipe: str | None,
    parameters: tuple[str, ...],
    working_dir: Path | None,
    runtime_env: Path | None,
    storage: str,
) -> Code | None:
    """The job that goes along, if any. Raises UsageError, NotFoundError."""
    from lab.flows.kubernetes.export.wanted import recipe_code, script_code

    command = command_given(recipe, parameters, runtime_env, working_dir)
    if recipe is not None:
        return recipe_code(spec.name, recipe, values.settings(parameters), storage, spec.workers)
    if command is not None:
        return script_code(spec.name, command, working_dir, runtime_env)
    return None


export.add_command(check)

COMMANDS = (export,)
