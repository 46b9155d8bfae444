"""Sources of the metrics: Ray's HTTP API, and what training and faults left in the object store.

What they return is plain data, with bounds that keep the number of metrics small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.cluster.api import Node, RayApi
from lab.cluster.checkpoints import JobLedger
from lab.cluster.jobs import INTERACTIVE, Job, Jobs
from lab.evidence.ledger import Number, Run, number
from lab.faults.records import FAULTS_PREFIX, LoggedFault, read_fault
from lab.host.clock import MONOTONIC, Clock
from lab.store import Store
from lab.topology import LEDGER_PREFIX

SETTLE_SECONDS = 30.0
"""Time for which the ledger of an ended job is still read: its last lines may be on their way."""

DISCOVER_SECONDS = 15.0
"""Pause between two searches for ledgers of drivers that were not submitted."""

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
    """Address of a Ray node's metrics: `instance` is host:port, as Prometheus names the target."""

    ip: str
    instance: str


@dataclass(frozen=True)
class ClusterView:
    """The cluster, as Ray's HTTP API tells it."""

    nodes: tuple[Node, ...]
    """Oldest first, the dead ones included."""
    addresses: Mapping[str, Address]
    """Node id -> address, of the nodes that are alive."""
    jobs: tuple[Job, ...]
    """Newest first."""


@dataclass(frozen=True)
class RunView:
    """One run, as far as its ledger tells."""

    job: str
    run: str
    epoch: Number | None
    """Progress of the last report, whatever the run counts in."""
    metrics: Mapping[str, Number]
    """Numbers of the last report, by name."""
    checkpoints: int
    attempts: int


@dataclass(frozen=True)
class StoreView:
    """Runs and faults, as far as the object store tells."""

    runs: tuple[RunView, ...]
    faults: tuple[LoggedFault, ...]


def label(text: str) -> str:
    """`text` as a label's value: encodable, and not too long."""
    return text[:MAX_LABEL].encode("utf-8", "replace").decode("utf-8")


class ClusterSource:
    """Ray's HTTP API."""

    def __init__(self, api: RayApi) -> None:
        self._api, self._jobs = api, Jobs(api)

    def read(self) -> ClusterView:
        """The cluster now. Raises ClusterError."""
        return ClusterView(
            self._api.nodes(), metrics_addresses(self._api.get("/nodes?view=summary")), self._jobs.list()
        )


def metrics_addresses(summary: Any) -> dict[str, Address]:
    """Node id -> where the node serves its metrics, from the dashboard's `/nodes?view=summary`."""
    addresses = {}
    for row in summary["data"]["summary"]:
        raylet = row.get("raylet") or {}
        ip, port = str(row.get("ip") or ""), raylet.get("metricsExportPort")
        if raylet.get("state") == "ALIVE" and ip and port:
            host = f"[{ip}]" if ":" in ip else ip
            addresses[str(raylet["nodeId"])] = Address(ip, f"{host}:{port}")
    return addresses


class StoreSource:
    """The ledgers and the faults in the object store; every object of them is read once."""

    def __init__(
        self,
        store: Store,
        jobs: Callable[[], Iterable[Job]],
        clock: Clock = MONOTONIC,
    ) -> None:
        """`jobs` returns the jobs that Ray knows, newest first."""
        self._store, self._jobs, self._clock = store, jobs, clock
        self._ledgers: dict[str, JobLedger] = {}
        self._ended: dict[str, float] = {}
        self._interactive: tuple[str, ...] = ()
        self._discovered: float | None = None
        self._faults: dict[str, LoggedFault | None] = {}

    def read(self) -> StoreView:
        """The store now. Raises StoreError; what was read before is kept."""
        now = self._clock()
        if self._discovered is None or now - self._discovered >= DISCOVER_SECONDS:
            self._interactive, self._discovered = self._newest_interactive(), now
        jobs = tuple(self._jobs())[:MAX_JOBS]
        names = [*(job.submission_id for job in jobs), *self._interactive]
        self._ledgers = {name: self._ledgers.get(name) or JobLedger(self._store, name) for name in names}
        for job in jobs:
            if not job.final:
                self._ended.pop(job.submission_id, None)
        final = {job.submission_id for job in jobs if job.final}
        for name, ledger in self._ledgers.items():
            if now - self._ended.get(name, now) <= SETTLE_SECONDS:
                ledger.poll()
            if name in final:
                self._ended.setdefault(name, now)
        self._ended = {name: at for name, at in self._ended.items() if name in self._ledgers}
        runs: dict[tuple[str, str], RunView] = {}
        for name, ledger in self._ledgers.items():
            for run in ledger.history.runs[-MAX_RUNS:]:
                view = run_view(name, run)
                runs[view.job, view.run] = view  # a name that is used again is the newer run's
        return StoreView(tuple(runs.values()), self._read_faults())

    def _newest_interactive(self) -> tuple[str, ...]:
        """The ledgers of notebooks written last. Their names, Ray's job ids, begin anew with a head."""
        written: dict[str, float] = {}
        for entry in self._store.list(f"{LEDGER_PREFIX}/{INTERACTIVE}"):
            name = entry.key.removeprefix(f"{LEDGER_PREFIX}/").partition("/")[0]
            written[name] = max(written.get(name, 0.0), entry.modified)
        return tuple(sorted(written, key=lambda name: (written[name], name))[-MAX_INTERACTIVE:])

    def _read_faults(self) -> tuple[LoggedFault, ...]:
        entries = [e for e in self._store.list(f"{FAULTS_PREFIX}/") if e.key.endswith(".json")]
        newest = sorted(entries, key=lambda e: e.modified)[-MAX_FAULTS:]
        known, self._faults = self._faults, {}
        for entry in newest:
            fault = known.get(entry.key)
            if entry.key not in known or (fault is not None and fault.reverted_at is None):
                fault = read_fault(self._store.get(entry.key))
            self._faults[entry.key] = fault
        return tuple(fault for fault in self._faults.values() if fault is not None)


def run_view(job: str, run: Run) -> RunView:
    last = run.last
    return RunView(
        job=label(job),
        run=label(run.name),
        epoch=last.progress if last else None,
        metrics=_numbers(last.metrics if last else {}),
        checkpoints=len(run.checkpoints),
        attempts=len(run.attempts),
    )


def _numbers(metrics: Mapping[str, object]) -> dict[str, Number]:
    numbers = {label(name): value for name in sorted(metrics) if (value := number(metrics[name])) is not None}
    return dict(list(numbers.items())[:MAX_RUN_METRICS])
