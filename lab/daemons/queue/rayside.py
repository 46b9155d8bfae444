"""Ray and the object store as the controller sees them: a narrow interface, which tests override."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from lab.api.ledger import CheckpointCommitted
from lab.cluster.allocation import Snapshot, holdings, read, waiting
from lab.cluster.api import Node, RayApi
from lab.cluster.checkpoints import JobLedger
from lab.cluster.jobs import Job, Jobs
from lab.cluster.node_sizes import NodeSizes
from lab.cluster.submission import Submission
from lab.daemons.queue.steering import Look
from lab.errors import NotFoundError
from lab.evidence.ledger import of_kind
from lab.store import Store


def needs_room(snapshot: Snapshot, shut: Collection[str]) -> bool:
    """Tell if a job, or a part of one, finds no room on the nodes that are not closed.

    Ray goes on to tell of the CPUs that a closed node began with.
    """
    left = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.service not in shut))
    return any(verdict.kind != "starting" for verdict in waiting(left).values())


class Cluster:
    """All that the controller asks of Ray and the store. Raises ClusterError or StoreError."""

    def __init__(self, api: RayApi, store: Store, node_sizes: NodeSizes) -> None:
        self._api, self._jobs, self._store = api, Jobs(api), store
        self._node_sizes = node_sizes
        self._ledgers: dict[str, JobLedger] = {}

    def ping(self) -> None:
        self._api.get("/api/version")

    def ping_store(self) -> None:
        self._store.ping()

    def find(self, submission_id: str) -> Job | None:
        """The job as Ray has it; None when it is not known, which one that died with its head is not."""
        job = self._jobs.find(submission_id)
        return None if job is not None and job.lost else job

    def unfinished(self) -> tuple[Job, ...]:
        """Every submitted job that has not ended."""
        return tuple(job for job in self._jobs.list() if not job.final)

    def submit(self, submission: Submission, package: bytes | None = None) -> None:
        """Start a job; `package` is its working folder as a zip.

        Raises UsageError when Ray refuses it, also for an id that exists.
        """
        self._jobs.submit(submission, package)

    def stop(self, submission_id: str) -> None:
        """End a job, and free what it holds; blocks until then. One that Ray does not know has ended."""
        self._ledgers.pop(submission_id, None)
        try:
            self._jobs.stop(submission_id)
        except NotFoundError:
            return

    def nodes(self) -> tuple[Node, ...]:
        """Every node that Ray knows, dead ones too."""
        return self._api.nodes()

    def look(self, shut: Collection[str]) -> Look:
        """Where jobs run now, and if any finds no room while these are closed."""
        snapshot = read(self._api)
        gpus: dict[str, dict[str, float]] = {}
        for holding in holdings(snapshot):
            places = gpus.setdefault(holding.job, {})
            held = holding.resources.get("GPU", 0.0)
            places[holding.service] = places.get(holding.service, 0.0) + held
        return Look(gpus, needs_room(snapshot, shut))

    def resize(self, node_id: str, cpus: float) -> None:
        """Let Ray give out so many CPUs of a node."""
        self._node_sizes.set_cpus(node_id, cpus)

    def taken(self) -> Mapping[str, Mapping[str, float]]:
        """Submission id -> resource (CPU, GPU, memory in bytes) -> amount held now."""
        used: dict[str, Counter[str]] = {}
        for holding in holdings(read(self._api)):
            used.setdefault(holding.job, Counter()).update(holding.resources)
        return used

    def checkpoint_since(self, submission_id: str, at: float) -> bool | None:
        """Tell if a checkpoint was committed after this time; None for a job without runs."""
        ledger = self._ledgers.setdefault(submission_id, JobLedger(self._store, submission_id))
        history = ledger.poll()
        if not history.runs:
            return None
        return any(event.at > at for event, _ in of_kind(ledger.events, CheckpointCommitted))
