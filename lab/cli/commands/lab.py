"""up, down, status, logs, restart: the lab and its services."""

from __future__ import annotations

import contextlib
import os.path
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lab.cli import documents, format, render, values
from lab.cli.class_options import class_options, reached, words
from lab.cli.commands.gpus import gpu_options, say_plan
from lab.cli.complete import service_names
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import ProgressLines
from lab.cli.tunnel import ray_commands, tunnel
from lab.errors import LabDownError, LabError, MovedError, ServiceError
from lab.extension import call, extensions
from lab.host.files import home
from lab.host.quantities import plural
from lab.runtime.spec import Asked, spec_of
from lab.services import GRAFANA, HEAD, JUPYTER, PORT_NAMES, STORE
from lab.services import row as find_row
from lab.topology import Endpoints, LabSpec, LabStatus
from lab.topology.address import Address

if TYPE_CHECKING:
    from lab.api.shown import ShownAddress
    from lab.cluster.api import Node
    from lab.cluster.jobs import Job
    from lab.lab import Lab

MAX_TAIL = 1_000_000
CLASS_FIRST = "labctl lesson data food11 --synthetic 20, labctl class add --file students.csv"
FOLLOW_TAIL = 10
"""Past lines that `logs -f` shows without --tail."""

service_argument = click.argument(
    "service", type=values.Text(), shell_complete=service_names,
    help="Such as ray-worker-0; see `labctl status`.",
)  # fmt: skip


@click.command(cls=LabCommand)
@gpu_options
@click.option("--workers", type=int, metavar="N", help=f"Ray nodes that train. [default: {LabSpec.workers}]")
@click.option(
    "--cpus-per-worker", type=int, metavar="N",
    help="Logical CPUs that each worker offers to Ray: used for scheduling, not a limit. "
    f"[default: {LabSpec.cpus_per_worker}]",
)  # fmt: skip
@click.option(
    "--port", "ports", type=values.Text(), multiple=True, metavar="NAME=PORT",
    help=f"A fixed port instead of a free one, repeatable. Names: {', '.join(PORT_NAMES)}.",
)  # fmt: skip
@click.option(
    "--gcs-ft",
    is_flag=True,
    help="Keep the state of Ray's head in Redis: a head that was killed comes back as the same cluster.",
)
@click.option(
    "--stock-ray",
    is_flag=True,
    help="Stock Ray, for comparison: none of the lab's changes to how it trains and recovers.",
)
@click.option(
    "--queued-only",
    is_flag=True,
    help="Accept jobs through queues only: stop those that are submitted to Ray directly.",
)
@click.option("--plain-names", is_flag=True, help="Call the containers ray-head and so on, as in the course.")
@class_options
@click.option(
    "--dry-run", is_flag=True,
    help="Start nothing: make secrets and settings, and print the `docker compose` command to use with them.",
)  # fmt: skip
@pass_app
def up(
    app: App,
    asked: Asked,
    workers: int | None,
    cpus_per_worker: int | None,
    ports: tuple[str, ...],
    gcs_ft: bool,
    stock_ray: bool,
    queued_only: bool,
    plain_names: bool,
    classroom: bool,
    address: Address | None,
    hub: bool,
    dry_run: bool,
) -> None:
    """Start the lab and wait until every service is healthy.

    If the lab is up, repairs it and keeps its settings: the defaults below are for a lab that is down.
    Ctrl-C stops everything that this call has started.
    """
    asked = replace(
        asked,
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        ports=values.ports(ports),
        gcs_ft=gcs_ft,
        stock_ray=stock_ray,
        queued_only=queued_only,
        plain_names=plain_names,
        classroom=classroom,
        address=address,
        hub=hub,
    )
    lab, spec = prepare(app, asked)
    if dry_run:
        command = lab.runtime.prepare(spec)
        if not app.out.as_json({"name": lab.name, "command": list(command)}):
            app.out.line(shlex.join(command))
        return
    status = lab.up(spec, ProgressLines(app.out).progress)
    if spec.classroom:
        provide(lab)
    if app.out.as_json(documents.lab(status)):
        return
    render.show_lab(app.out, status)
    for line in reached(app, lab) if spec.address else tunnel(status.services, os.environ):
        app.out.line(line)
    first = CLASS_FIRST if spec.classroom else "labctl submit digits"
    app.out.note(f"next: {first}, labctl status, labctl down")


def provide(lab: Lab) -> None:
    """Give the people of a class what they lack of queues and keys, as where the store is a new one."""
    from lab.flows.people import Classroom

    Classroom(lab).provide()


def prepare(app: App, asked: Asked) -> tuple[Lab, LabSpec]:
    """Open the lab and build its spec, with a warning for each scarce resource. Nothing is started.

    Raises UsageError, UnsupportedError, GpuError, StateError.
    """
    from lab.flows.doctor import gather_facts, resource_warnings

    lab = app.open(announce=True)
    spec = spec_of(lab.runtime, asked)
    say_plan(app, spec.gpu)
    if not lab.status().up:
        for warning in resource_warnings(gather_facts(), spec.workers):
            app.out.warn(f"{warning.name}: {warning.detail}", warning.hint)
    return lab, spec


@click.command(cls=LabCommand)
@click.option("--volumes", is_flag=True, help="Delete every stored object too: checkpoints, ledgers, data.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@pass_app
def down(app: App, volumes: bool, yes: bool) -> None:
    """Stop the lab, even one that is only half up. Stored objects survive, unless --volumes is given."""
    lab = app.open()
    own = own_objects(lab) if volumes else ()
    if volumes and not yes:
        app.confirm(f"--volumes deletes, for good: {stored(lab)} of lab {lab.name}{also_kept(lab)}")
    left = [] if volumes else list(before_down(lab))
    progress = ProgressLines(app.out).progress
    try:
        stopped = lab.down(volumes=volumes, on_progress=progress)
    except MovedError:  # by an `up` that was waited for
        if volumes:  # nobody was asked about its objects
            raise
        stopped = app.open().down(volumes=volumes, on_progress=progress)
    for why in left if stopped else ():
        app.out.note(why)
    document = {"name": lab.name, "stopped": list(stopped), "volumes_deleted": volumes}
    if app.out.as_json(document):
        return
    done = f"stopped {', '.join(stopped)}" if stopped else "nothing was running"
    app.out.sentence(f"lab {lab.name}: {done}")
    if volumes:
        app.out.line(f"stored objects: {'deleted' if own or stopped else 'there are none'}")


def before_down(lab: Lab) -> Iterator[str]:
    """Let each extension keep what would be out of reach; yields what it could not do."""
    for path in (path for extension in extensions() for path in extension.before_down):
        try:
            why = call(path, lab)
        except (Exception, SystemExit) as error:  # the lab is stopped all the same
            why = f"{path} raised {error!r}"
        if isinstance(why, str) and why:
            yield why


def stored(lab: Lab) -> str:
    """Name what --volumes would delete, and how much, as far as the object store can be asked."""
    try:
        checkpoints = [checkpoint for checkpoint in lab.checkpoints(None) if checkpoint.in_store]
    except LabError:
        return "every stored object (nobody knows how many: the object store does not answer)"
    amount = format.size(sum(c.size for c in checkpoints))
    return f"{plural(len(checkpoints), 'checkpoint')} ({amount}) and every other stored object"


def own_objects(lab: Lab) -> tuple[str, ...]:
    """The places where the lab itself keeps objects, as far as they can be seen."""
    with contextlib.suppress(LabError):
        return lab.view.kept()
    return ()


def also_kept(lab: Lab) -> str:
    """Name homes (in containers: while the lab is up) and results of lessons that go too; may be empty."""
    said = ""
    with contextlib.suppress(LabError):
        if people := lab.runtime.homes().count():
            said = f", and {plural(people, 'home')} of people in JupyterHub"
    if kept := sum(1 for _ in (home() / lab.name / "lessons").glob("lesson-*.json")):
        said += f", and the results of {plural(kept, 'lesson')}; hand them in first: labctl lesson report"
    return said


@click.command(cls=LabCommand)
@click.option(
    "--check", is_flag=True, help="Exit with 5 when the lab is down, 8 when a service is not healthy."
)
@click.option(
    "--addresses", is_flag=True,
    help="Show each service's purpose, address and file of its secret, instead of nodes and jobs.",
)  # fmt: skip
@click.option("--show-secrets", is_flag=True, help="The same, with the secrets themselves: keys and tokens.")
@pass_app
def status(app: App, check: bool, addresses: bool, show_secrets: bool) -> None:
    """Show services, their addresses, nodes and running jobs.

    Also shows which object store is in use. Exits with 0 whatever it finds, unless --check is given.
    """
    lab = app.open()
    seen = lab.status()
    if addresses or show_secrets:
        _addresses(app, lab, seen, show_secrets)
    else:
        _overview(app, lab, seen)
    if check and not seen.up:
        app.fail(LabDownError(f"lab {seen.name} is down", "start it with `labctl up`"))
    if check and not seen.healthy:
        hint = "labctl logs SERVICE says more; labctl restart SERVICE"
        app.fail(ServiceError(render.headline(seen), hint))


def _overview(app: App, lab: Lab, seen: LabStatus) -> None:
    nodes, running, problems = cluster(lab, seen)
    problems += _left_undone(app, lab, seen) if seen.up else ()
    devices = lab.health.devices() if seen.up else ()
    if not app.out.as_json(documents.lab(seen, nodes, running, problems, devices)):
        from lab.cluster.health import states

        health = {
            node: f"{state} ({why})" if why else state for node, (state, why) in states(devices).items()
        }
        render.show_lab(app.out, seen, nodes, running, problems, health)
        if not seen.up:
            app.out.note("start it with: labctl up")


def _left_undone(app: App, lab: Lab, seen: LabStatus) -> tuple[str, ...]:
    """The faults that a labctl has left behind, and services that are down on purpose or by themselves."""
    from lab.runtime.active_faults import left_undone

    left = left_undone(lab.view, seen)
    undo = "has not been undone: `labctl heal` undoes it"
    faults = (f"the fault {one.kind} of {one.target} {undo}" for one in left.faults)
    down = (f"{one} was left down: `labctl restart {one}` starts it" for one in left.down)
    ended = (f"{service} has ended: `labctl up` repairs" for service in left.ended)
    return (*map(app.out.about, (*faults, *down)), *ended)


def cluster(lab: Lab, seen: LabStatus) -> tuple[tuple[Node, ...], tuple[Job, ...], tuple[str, ...]]:
    """Ask Ray for nodes and running jobs; last come the problems with that."""
    if not seen.up:
        return (), (), ()
    try:
        return lab.api.nodes(), tuple(job for job in lab.jobs.list() if not job.final), ()
    except LabError as error:
        return (), (), (error.message,)


def _addresses(app: App, lab: Lab, seen: LabStatus, show_secrets: bool) -> None:
    """List the services with their addresses, and where each secret is kept or what it is."""
    endpoints = lab.endpoints() if seen.up else None
    rows = [_service(s.service, s.state.value, s.url, endpoints, show_secrets) for s in seen.services]
    shell = ray_commands(endpoints)
    if app.out.as_json({"name": seen.name, "up": seen.up, "services": rows, "shell": shell}):
        return
    if not rows:
        app.out.sentence(render.headline(seen))
        app.out.note("start it with: labctl up")
        return
    columns = ("SERVICE", "STATE", "WHAT", "URL")
    app.out.show(render.table(columns, ((r["service"], r["state"], r["what"], r["url"]) for r in rows)))
    for line in (*words(endpoints), *shell.values()) if endpoints else ():
        app.out.line(line)
    secrets = [row for row in rows if row["secret_file"] or row.get("secret")]
    if secrets:
        app.out.line()
    for row in secrets:
        app.out.line(f"{row['service']}: secret in {row['secret_file'] or 'memory'}")
        for name, value in (row.get("secret") or {}).items():
            app.out.line(f"  {name}: {value}")


def _service(name: str, state: str, url: str, endpoints: Endpoints | None, reveal: bool) -> ShownAddress:
    known = find_row(name)
    row: ShownAddress = {
        "service": name, "state": state, "what": known.what,
        "url": format.without_secrets(url), "secret_file": "",
    }  # fmt: skip
    if endpoints is None:
        return row
    if known.secret and endpoints.ray_token_file:  # all lie in one folder
        row["secret_file"] = os.path.join(os.path.dirname(endpoints.ray_token_file), known.secret)
    if reveal:
        row["secret"] = {
            HEAD: {"token": endpoints.ray_token},
            STORE: {
                "access_key": endpoints.credentials.access_key,
                "secret_key": endpoints.credentials.secret_key,
            },
            JUPYTER: {"url": endpoints.jupyter},
            GRAFANA: {"user": "admin", "password": endpoints.grafana_password},
        }.get(name)
    return row


@click.command(cls=LabCommand)
@service_argument
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come, until Ctrl-C.")
@click.option(
    "--tail", type=values.WholeNumber(0, MAX_TAIL), metavar="N",
    help=f"Only the last N lines. [default: all; with -f the last {FOLLOW_TAIL}]",
)  # fmt: skip
@pass_app
def logs(app: App, service: str, follow: bool, tail: int | None) -> None:
    """Print what a service wrote. With --json and -f, one JSON document per line."""
    if follow and tail is None:
        tail = FOLLOW_TAIL
    lines = app.open().logs(service, follow=follow, tail=tail)
    if app.out.json_wanted and not follow:
        app.out.document({"service": service, "lines": list(lines)})
        return
    for line in lines:
        if not app.out.as_json({"service": service, "line": line}, compact=True):
            app.out.raw_line(line)
            sys.stdout.flush()


@click.command(cls=LabCommand)
@service_argument
@pass_app
def restart(app: App, service: str) -> None:
    """Stop a service and start it again. Waits until it is healthy; brings back what a fault took away."""
    from lab.flows.recovery.asked import restart as restart_or_ask

    lab = app.open()
    restart_or_ask(lab, service, ProgressLines(app.out).progress)
    seen = lab.status().service(service)
    state = seen.state.value if seen else "absent"
    if app.out.json_wanted:
        app.out.document(
            {"service": service, "state": state, "url": format.without_secrets(seen.url if seen else "")}
        )
    else:
        app.out.line(f"{service} is {state}")


COMMANDS = (up, down, status, logs, restart)
