"""What the metrics are made of, as plain data, and the bounds that keep their number small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.evidence.ledger import Number
from lab.faults.records import LoggedFault

MAX_SERVICES = 64
"""Services (Ray node names) that are shown; a lab has at most 17."""

MAX_JOBS = 20
"""Submitted jobs whose runs are shown, the newest."""

MAX_INTERACTIVE = 5
"""Jobs of drivers that were not submitted (notebooks) whose runs are shown."""

MAX_RUNS = 4
"""Runs shown of each job, the newest."""

MAX_RUN_METRICS = 12
"""Reported metrics shown of each run, by name."""

MAX_FAULTS = 500
"""Faults counted, the newest."""

MAX_FAULT_PAIRS = 64
"""Pairs of fault and target that are shown."""

MAX_LABEL = 100
"""Characters of a label's value; what is longer is cut."""


@dataclass(frozen=True)
class Address:
    """Where a Ray node serves its metrics: `instance` is host:port, as Prometheus names the target."""

    ip: str
    instance: str


@dataclass(frozen=True)
class ClusterView:
    """The cluster as Ray's HTTP API tells it."""

    nodes: tuple[Node, ...]
    """Oldest first, the dead ones included."""
    addresses: Mapping[str, Address]
    """By node id, of those that are alive."""
    jobs: tuple[Job, ...]
    """Newest first."""


@dataclass(frozen=True)
class RunView:
    """One run, as far as its ledger tells."""

    job: str
    run: str
    epoch: Number | None
    """Progress of the last report, whatever the run counts in."""
    epochs_planned: Number | None
    metrics: Mapping[str, Number]
    """Numbers of the last report, by name."""
    checkpoints: int
    attempts: int


@dataclass(frozen=True)
class StoreView:
    """What the object store tells of runs and faults."""

    runs: tuple[RunView, ...]
    faults: tuple[LoggedFault, ...]


def label(text: str) -> str:
    """`text` as a label's value: encodable, and not too long."""
    return text[:MAX_LABEL].encode("utf-8", "replace").decode("utf-8")
