"""Options for a cluster that labctl does not run, and the lab that they open."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lab.cli import values
from lab.cli.context import KUBERNETES, App, Decorator, options
from lab.errors import UsageError
from lab.topology import REGION

if TYPE_CHECKING:
    from lab.lab import Lab
    from lab.store import Store


@dataclass(frozen=True)
class LedgerPlace:
    """A ledger's place, and the context of kubectl; empty where not given."""

    storage: str = ""
    endpoint: str = ""
    region: str = ""
    context: str = ""
    namespace: str = ""

    @classmethod
    def of(cls, *, kube_context: str | None = None, **given: str | None) -> LedgerPlace:
        """The place that the options name, each of which may be missing."""
        return cls(context=kube_context or "", **{name: value or "" for name, value in given.items()})

    def typed(self) -> str:
        """The options that name it, for a command line."""
        given = ((f"--{name}", value) for name, value in vars(self).items() if value)
        return shlex.join(("--runtime", KUBERNETES, *(word for pair in given for word in pair)))

    def store(self) -> Store:
        """The store of the ledger. Raises UsageError."""
        from lab.flows.recovery.outside import ledger_store

        return ledger_store(self.storage, self.endpoint, self.region, os.environ)


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


cluster_options = options(
    ledger_options(required=False),
    click.option(
        "--context", "kube_context", type=values.Text(), metavar="NAME",
        help="With --runtime kubernetes: the context of kubectl.",
    ),
    click.option(
        "-n", "--namespace", type=values.Text(), metavar="NAMESPACE",
        help="Namespace of the pods. [default: that of the context]",
    ),
)  # fmt: skip
"""Give a command the options of --runtime kubernetes."""


def open_lab(app: App, place: LedgerPlace) -> Lab:
    """The lab that --lab and --runtime choose, or the cluster that these options name. Raises UsageError."""
    if app.runtime != KUBERNETES:
        given = next((name for name, value in vars(place).items() if value), "")
        if given:
            raise UsageError(f"--{given} without --runtime kubernetes", "it names a part of a cluster")
        return app.open()
    from lab.flows.recovery.outside import open_outside
    from lab.runtime.kubernetes import Kubectl, KubernetesControl

    for name in ("context", "storage"):
        if not getattr(place, name):
            what = "a context of kubectl" if name == "context" else "where the cluster's jobs write"
            raise UsageError(f"--runtime kubernetes without --{name}", f"--{name} names {what}")
    app.cluster = place.typed()
    return open_outside(KubernetesControl(Kubectl(place.context, place.namespace)), place.store())
