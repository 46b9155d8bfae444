"""submit: hand a recipe or a command to Ray, and follow it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lab.cli import documents, format, queue_words, render, values
from lab.cli.complete import parameter_names, recipe_names
from lab.cli.context import AFTER_DASHES, App, DashCommand, pass_app
from lab.cli.queue_options import queue_options, queue_request
from lab.cli.queued_jobs import Follower, newest
from lab.cli.why_waiting import HOPE, Waits
from lab.cluster.job_logs import lines_of
from lab.cluster.jobs import Job
from lab.cluster.queue_request import QueuedSubmission, of_command, of_recipe
from lab.cluster.submission import Submitted
from lab.errors import JobError, LabError, UsageError
from lab.topology import MAX_CPUS, MAX_GPUS

if TYPE_CHECKING:
    from lab.api.shown import SubmittedJob
    from lab.lab import Lab

LAST_LINES = 20
"""Lines of a failed job's log that --json carries."""

parameter_option = click.option(
    "-p", "parameters", type=values.Text(), multiple=True, metavar="NAME=VALUE",
    shell_complete=parameter_names,
    help="A parameter of the recipe, repeatable; see `labctl submit --list`.",
)  # fmt: skip
working_dir_option = click.option(
    "--working-dir", type=values.Place(), metavar="DIR",
    help="Folder that a command is sent with and runs in. [default: the current one]",
)  # fmt: skip
runtime_env_option = click.option(
    "--runtime-env", type=values.Place(), metavar="FILE",
    help="Ray runtime environment of a command, a JSON file.",
)  # fmt: skip


class SubmitCommand(DashCommand):
    """Says how a recipe's parameter is set where it was given like an option or an argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. Raises UsageError for a parameter without -p."""
        given = [argument for before, argument in pairwise(["", *args]) if before != "-p" and "=" in argument]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            option = error.option_name if isinstance(error, click.NoSuchOption) else ""
            if option == "--name":  # refused with the two names that it has now, everywhere
                raise
            known = {name.rstrip("=") for name in parameter_names(ctx, self.params[0], "")}
            for wrong in (option, *given):
                name = wrong.lstrip("-").partition("=")[0]
                if name in known:
                    raise UsageError(
                        f"{wrong}: a parameter of a recipe is set with -p",
                        f"labctl submit RECIPE -p {name}=VALUE",
                    ) from error
            raise


@click.command(cls=SubmitCommand, options_metavar="[OPTIONS]")
@click.argument(
    "recipe",
    type=values.Text(),
    required=False,
    metavar="[RECIPE | -- COMMAND...]",
    help="A recipe of workspace/, or a command after --.",
    shell_complete=recipe_names,
)
@parameter_option
@click.option(
    "--fault-tolerance", type=values.Text(), metavar="WAY",
    help="Way to survive the loss of a rank. `torchft`: the other ranks go on.",
)  # fmt: skip
@click.option(
    "--num-cpus",
    type=values.Amount(MAX_CPUS),
    default=0,
    metavar="N",
    help="CPUs for the entrypoint itself. [default: 0]",
)
@click.option(
    "--num-gpus",
    type=values.Amount(MAX_GPUS),
    default=0,
    metavar="N",
    help="GPUs for the entrypoint itself. [default: 0]",
)
@runtime_env_option
@working_dir_option
@click.option("--job-name", type=values.JobName(), metavar="NAME", help="The job's name.")
@click.option(
    "--fail-if-infeasible", is_flag=True,
    help="Exit with 11, and submit nothing, when no node can hold it, instead of letting it wait.",
)  # fmt: skip
@queue_options
@click.option("--detach", is_flag=True, help="Return as soon as the job is submitted.")
@click.option(
    "--list", "listing", is_flag=True,
    help="Submit nothing: list the recipes, or the one named, and what -p can set.",
)  # fmt: skip
@pass_app
def submit(
    app: App,
    /,
    recipe: str | None,
    parameters: tuple[str, ...],
    fault_tolerance: str | None,
    num_cpus: float,
    num_gpus: float,
    runtime_env: Path | None,
    working_dir: Path | None,
    job_name: str | None,
    fail_if_infeasible: bool,
    detach: bool,
    dry_run: bool,
    listing: bool,
    **asked: Any,
) -> None:
    """Submit a recipe or a command, and follow its log.

    A command stands after --: labctl submit -- python train.py --lr 0.1

    With --queue the job waits until that queue has room for it; see `labctl queue why`. With --retry-limit or
    another retry option, the job starts again after a failure, with or without a queue.

    Ctrl-C stops following; the job goes on. Exits with 9 when the job fails.
    """
    from lab.cluster.recipes import find_recipe
    from lab.cluster.submission import described

    if listing:
        _list(app, recipe)
        return
    request = queue_request(dry_run=dry_run, warn=app.out.warn, **asked)
    command = command_given(recipe, parameters, runtime_env, working_dir)
    if recipe is not None:
        chosen = values.settings(parameters)
        chosen_recipe = find_recipe(recipe).tolerating(fault_tolerance or "")
        chosen_recipe.arguments(chosen)
        lab = app.open()
        if request is not None and dry_run:
            gpus = len(lab.gpu_plan.assignments)
            _would(
                app, lab, of_recipe(chosen_recipe, chosen, request, gpus, num_cpus, num_gpus, job_name or "")
            )
            return
        submitted = lab.submit_recipe(
            recipe,
            chosen,
            fault_tolerance=fault_tolerance or "",
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            job_name=job_name or "",
            fail_if_infeasible=fail_if_infeasible,
            queue=request,
        )
    else:
        if fault_tolerance:
            raise UsageError(
                f"--fault-tolerance {fault_tolerance}: only for a recipe",
                "for a script of your own see docs/survivors.md: it sets torchft up itself",
            )
        submission = described(command or (), working_dir, num_cpus, num_gpus, runtime_env, job_name or "")
        lab = app.open()
        if request is not None and dry_run:
            _would(app, lab, of_command(submission, request))
            return
        submitted = lab.submit(submission, fail_if_infeasible=fail_if_infeasible, queue=request)
    _follow(app, lab, submitted, detach)


def command_given(
    recipe: str | None, parameters: tuple[str, ...], runtime_env: Path | None, working_dir: Path | None
) -> tuple[str, ...] | None:
    """The command after --, if there is one. Raises UsageError for what does not go with it, or a recipe."""
    command: tuple[str, ...] | None = click.get_current_context().meta.get(AFTER_DASHES)
    if recipe is not None and command is not None:
        raise UsageError(f"{recipe} --: either a recipe or a command", "RECIPE, or -- COMMAND")
    for option, value in (("--runtime-env", runtime_env), ("--working-dir", working_dir)):
        if value is not None and command is None:
            raise UsageError(f"{option}: only for a command after --")
    if parameters and recipe is None:
        raise UsageError(f"-p {parameters[0]}: only for a recipe", "give a command its arguments after --")
    return command


def _list(app: App, name: str | None) -> None:
    """List the recipes, or the one of this name, with their parameters."""
    from lab.cluster.recipes import find_recipe, recipes

    chosen = recipes() if name is None else (find_recipe(name),)
    if app.out.as_json({"recipes": [documents.recipe(recipe) for recipe in chosen]}):
        return
    for recipe in chosen:
        also = f"; --fault-tolerance: {', '.join(recipe.ways)}" if recipe.ways else ""
        app.out.sentence(f"{recipe.name}: {recipe.summary}{also}")
        rows = (
            (f"  -p {p.name}=", "" if p.default is None else p.default, p.type, p.help)
            for p in recipe.parameters
        )
        app.out.show(render.table(("  PARAMETER", "DEFAULT", "TYPE", "WHAT IT IS"), rows))


def _would(app: App, lab: Lab, job: QueuedSubmission) -> None:
    """Say what would be if the job were submitted now."""
    forecast = lab.queues.dry_run(job)
    if app.out.as_json(forecast):
        return
    app.out.line("it would start at once" if forecast.status == "Admitted" else "it would wait")
    rows: list[tuple[str, object]] = [
        ("asks for", queue_words.asked(forecast.pod_sets)),
        ("ClusterQueue", forecast.cluster_queue),
    ]
    if forecast.preempts:
        rows.append(("preempts", ", ".join(forecast.preempts)))
    if forecast.status != "Admitted":
        rows += queue_words.why_rows(forecast)
    render.pairs(app.out, rows)


def _follow(app: App, lab: Lab, submitted: Submitted, detach: bool) -> None:
    """Follow a job to its end, from its queue if it has one. Exits with 9 when it fails."""
    job_id, workload, out = submitted.submission_id, submitted.workload, app.out
    document: SubmittedJob = {"submission_id": job_id, "waits": submitted.waits, "job": None}
    if workload:
        document["workload"] = workload
    out.note(f"submitted job {workload or job_id}")
    if submitted.waits:
        out.warn(f"job {job_id} waits: {submitted.waits}", HOPE.format(job=job_id))
    if detach:
        if not out.as_json(document):
            where = f"where it is: labctl queue why {job_id}    " if workload else ""
            out.line(job_id)
            out.note(f"{where}follow it: labctl jobs logs -f {job_id}")
        return
    follower = Follower(lab, workload, app.clock, out.note) if workload else None
    try:
        for line in follower.lines() if follower else _log(app, lab, submitted):
            out.log_line(line)
    except KeyboardInterrupt:
        out.note(f"\nno longer following; job {job_id} goes on")
        out.note(f"follow it: labctl jobs logs -f {job_id}    stop it: labctl jobs stop {job_id}")
        raise
    job = newest(lab, follower.description, job_id) if follower else lab.jobs.get(job_id)
    document["job"] = documents.job(job)
    if follower:
        document["queue"] = follower.description
    if job.status == "SUCCEEDED" if follower is None else follower.description.reason == "Succeeded":
        if explanation := lab.why_failed(job):
            document["explanation"] = documents.explanation(explanation)
        if out.json_wanted:
            out.document(document)
        out.note(f"job {workload or job_id} succeeded")
        out.explain(explanation)
    elif follower is None or (job.status == "FAILED" and follower.description.status == "Finished"):
        _failed(app, lab, job, document)
    else:
        described = follower.description
        error = JobError(
            f"job {workload}: {described.status}, {queue_words.explained(described)}",
            f"what happened: labctl queue describe {job_id}",
        )
        out.complain(error, document)
        raise click.exceptions.Exit(error.exit_code)


def _log(app: App, lab: Lab, submitted: Submitted) -> Iterator[str]:
    """The log of a job without a queue; meanwhile it is said why it waits."""
    waits = Waits(app.out, lab, app.clock, said=submitted.waits)
    for line in lab.jobs.follow(submitted.submission_id, waits.poll, on_outage=app.out.note):
        waits.heard()
        yield line


def _failed(app: App, lab: Lab, job: Job, document: SubmittedJob) -> NoReturn:
    """Say that the job failed, with its last lines, and exit with 9."""
    try:
        last = lines_of(lab.jobs.logs(job.submission_id, LAST_LINES))
    except LabError:
        last = []
    last = [format.at_rest(line) for line in last or job.message.splitlines()[-LAST_LINES:]]
    how = {"STOPPED": "was stopped"}.get(job.status, "failed")
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    cause = format.first_line(job.message).rstrip(".,:") if job.message and not code else ""
    error = JobError(
        f"job {job.submission_id} {how}{code}{f': {cause}' if cause else ''}",
        f"its whole log: labctl jobs logs {job.submission_id}",
    )
    explanation = lab.why_failed(job)
    document["submission_id"] = job.submission_id
    document["last_lines"] = last
    document["explanation"] = documents.explanation(explanation)
    app.out.complain(error, document)
    app.out.explain(explanation)
    raise click.exceptions.Exit(error.exit_code)


COMMANDS = (submit,)
