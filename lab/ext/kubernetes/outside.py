"""--runtime kubernetes, and the receipt of a job on any cluster: what names a cluster and its ledger."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import receipt_panel, values
from lab.cli.commands.faults import judge, strict_option
from lab.cli.context import App, Decorator, LabCommand, options, pass_app
from lab.errors import UsageError
from lab.topology import REGION

if TYPE_CHECKING:
    from lab.lab import Lab

PLACE = ("storage", "endpoint", "region", "context", "namespace")
NAMES = {"context": "a context of kubectl", "storage": "where the cluster's jobs write"}
"""Option without which no cluster is known -> what it names."""


def ledger_options(*, required: bool) -> Decorator:
    """Give a command the options of a ledger's place."""
    return options(
        click.option(
            "--storage", type=values.Text(), required=required, metavar="s3://BUCKET[/FOLDER]",
            help="Where the jobs of the cluster write, as for `export kubernetes`. "
            "The key comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials.",
        ),
        click.option(
            "--endpoint", type=values.Text(), metavar="URL",
            help="Address of its object store. [default: $AWS_ENDPOINT_URL, else AWS' own]",
        ),
        click.option(
            "--region", type=values.Text(), metavar="REGION",
            help=f"Region of the object store. [default: {REGION}]",
        ),
    )  # fmt: skip


OPTIONS = options(
    ledger_options(required=False),
    click.option(
        "--context", type=values.Text(), metavar="NAME",
        help="With --runtime kubernetes: the context of kubectl.",
    ),
    click.option(
        "-n", "--namespace", type=values.Text(), metavar="NAMESPACE",
        help="Namespace of the pods. [default: that of the context]",
    ),
)  # fmt: skip
"""Give a command the options of --runtime kubernetes."""


def open_lab(app: App, **place: str | None) -> Lab:
    """The cluster that these options name. Raises UsageError."""
    from lab.ext.kubernetes.control import KubernetesControl
    from lab.ext.kubernetes.kubectl import Kubectl
    from lab.flows.recovery.outside import ledger_store, open_outside

    given = {name: place[name] or "" for name in PLACE}
    for name, what in NAMES.items():
        if not given[name]:
            raise UsageError(f"--runtime kubernetes without --{name}", f"--{name} names {what}")
    words = (word for name, value in given.items() if value for word in (f"--{name}", value))
    app.cluster = shlex.join(("--runtime", app.runtime, *words))
    storage, endpoint, region, context, namespace = given.values()
    control = KubernetesControl(Kubectl(context, namespace))
    return open_outside(control, ledger_store(storage, endpoint, region, os.environ))


@click.command(cls=LabCommand)
@click.argument("job", type=values.Text(), help="The submission id; of a RayJob its status.jobId.")
@strict_option
@ledger_options(required=True)
@pass_app
def receipt(app: App, job: str, strict: bool, storage: str, endpoint: str | None, region: str | None) -> None:
    """Judge a job of any cluster from its ledger alone.

    Judges the newest fault on record, as `fault-inject --runtime kubernetes` leaves it, else the last failure
    that Ray Train noticed. A question without evidence is marked as skipped. Writes nothing; exits
    with 0 only when the verdict is `recovered`, `resumed` or `as-expected`, else with 10; see --strict.
    """
    from lab.flows.recovery.outside import judge_from_ledger, ledger_store

    store = ledger_store(storage, endpoint or "", region or "", os.environ)
    judged = judge_from_ledger(store, storage, job)
    if not app.out.as_json(plain(judged)):
        receipt_panel.show(app.out, judged)
    judge(app, judged, strict=strict)


COMMANDS = (receipt,)
