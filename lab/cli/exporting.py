"""Options that the commands of `labctl export` share, two of them with `submit`."""

from __future__ import annotations

import click

from lab.cli import values
from lab.cli.complete import parameter_names, recipe_names
from lab.topology import MAX_WORKERS, REGION, LabSpec

GPUS = ("nvidia", "amd", "none")
HERE = ("simulated", *GPUS)
JOB_METAVAR = "[RECIPE | -- COMMAND...]"

recipe_argument = click.argument(
    "recipe", type=values.Text(), required=False, metavar=JOB_METAVAR, shell_complete=recipe_names,
    help="A job that goes along: a recipe of workspace/, or a command after --.",
)  # fmt: skip
parameter_option = click.option(
    "-p", "parameters", type=values.Text(), multiple=True, metavar="NAME=VALUE",
    shell_complete=parameter_names,
    help="A parameter of the recipe, repeatable; see `labctl submit --list`.",
)  # fmt: skip
working_dir_option = click.option(
    "--working-dir", type=values.Place(), metavar="DIR",
    help="Folder of a command, whose files go along. [default: the current one]",
)  # fmt: skip
runtime_env_option = click.option(
    "--runtime-env", type=values.Place(), metavar="FILE",
    help="Ray runtime environment of a command, a JSON file.",
)  # fmt: skip
gpu_option = click.option(
    "--gpu", type=click.Choice(GPUS), help="GPUs of the workers. [default: those of the lab when it is up]"
)
workers_option = click.option(
    "--workers", type=values.WholeNumber(1, MAX_WORKERS), metavar="N",
    help=f"Nodes that train. [default: those of the lab when it is up, else {LabSpec.workers}]",
)  # fmt: skip
cpus_option = click.option(
    "--cpus-per-worker", type=values.WholeNumber(1, 1024), metavar="N",
    help=f"CPUs of each worker. [default: those of the lab when it is up, else {LabSpec.cpus_per_worker}]",
)  # fmt: skip
memory_option = click.option(
    "--memory-per-worker", type=values.MemorySize(), metavar="SIZE",
    help="Memory of each worker, such as 8Gi. [default: 4Gi, with a GPU 16Gi]",
)  # fmt: skip
storage_option = click.option(
    "--storage", type=values.Text(), default="s3://ray", show_default=True, metavar="s3://BUCKET[/FOLDER]",
    help="Where checkpoints and ledgers go.",
)  # fmt: skip
endpoint_option = click.option(
    "--endpoint", type=values.Text(), metavar="URL",
    help="Address of the object store, as the nodes reach it. [default: AWS' own]",
)  # fmt: skip
region_option = click.option(
    "--region", type=values.Text(), default=REGION, show_default=True, metavar="REGION",
    help="Region of the object store.",
)  # fmt: skip

gcs_ft_option = click.option(
    "--gcs-ft", is_flag=True,
    help="Keep the state of Ray's head in Redis. [default: as the lab when it is up]",
)  # fmt: skip
stock_ray_option = click.option(
    "--stock-ray", is_flag=True,
    help="Stock Ray: without the lab's changes to how it trains. [default: as the lab when it is up]",
)  # fmt: skip
folder_option = click.option(
    "--output", type=values.Place(), required=True, metavar="DIR", help="A new folder."
)
