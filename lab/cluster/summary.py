"""Overview of a lab, for a person at a Python prompt: where everything is, and what it offers to jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.errors import RefusedError
from lab.services import GRAFANA, HEAD, JUPYTER, PROMETHEUS, QUEUE, STORE
from lab.topology import BUCKET, GpuPlan, LabStatus, ServiceStatus, State, Vendor

RESOURCES = ("CPU", "GPU", "memory")
"""Resources of a node that a person asks for."""


@dataclass(frozen=True, repr=False)
class LabDetails:
    """Result of `Lab.details`. As text (`str`, `repr`) it is a page to read; it holds no secret."""

    name: str
    runtime: str
    healthy: bool
    """True if every service is."""
    dashboard: str
    """Ray's dashboard, for a browser on the machine that runs the lab; empty when there is none, as below."""
    jupyter: str
    """JupyterLab, without the token that it asks for: `labctl status --show-secrets` prints that."""
    s3: str
    """The object store."""
    prometheus: str
    grafana: str
    services: tuple[ServiceStatus, ...]
    nodes: tuple[Node, ...]
    """The living nodes of the Ray cluster, the head first."""
    resources: Mapping[str, float]
    """Total of these nodes: CPU and GPU in units, memory in bytes; jobs may hold some of it."""
    gpu: GpuPlan
    notes: tuple[str, ...]
    queue: str = ""
    """The controller of the queues."""

    def __str__(self) -> str:
        return "\n".join([self._headline(), *self._addresses(), *self._nodes()])

    __repr__ = __str__

    def _headline(self) -> str:
        wrong = [s for s in self.services if s.state is not State.HEALTHY]
        state = "; ".join(f"{s.service} is {s.state.value} ({s.detail})" for s in wrong) or "healthy"
        return f"lab {self.name} (runtime {self.runtime}): {state}"

    def _addresses(self) -> list[str]:
        addresses = (
            ("dashboard", self.dashboard),
            ("jupyter", self.jupyter),
            ("s3", f"{self.s3}  bucket s3://{BUCKET}" if self.s3 else ""),
            ("prometheus", self.prometheus),
            ("grafana", self.grafana),
            ("queue", self.queue),
        )
        return [f"  {name:12}  {url}" for name, url in addresses if url]

    def _nodes(self) -> list[str]:
        if not self.nodes:
            return []
        kind = " (simulated)" if self.gpu.vendor is Vendor.SIMULATED else ""
        lines = [f"  {node.service:12}  {_offer(node.resources)}" for node in self.nodes]
        return [*lines, f"  {'together':12}  {_offer(self.resources)}{kind if self.resources['GPU'] else ''}"]


def details(status: LabStatus, nodes: Sequence[Node]) -> LabDetails:
    """A lab's status and its cluster's nodes, dead ones included, as one answer."""
    living = tuple(sorted((n for n in nodes if n.alive), key=lambda n: (not n.head, n.service)))
    urls = {service.service: service.url for service in status.services}
    return LabDetails(
        name=status.name,
        runtime=status.runtime,
        healthy=status.healthy,
        dashboard=urls.get(HEAD, ""),
        jupyter=urls.get(JUPYTER, ""),
        s3=urls.get(STORE, ""),
        prometheus=urls.get(PROMETHEUS, ""),
        grafana=urls.get(GRAFANA, ""),
        services=status.services,
        nodes=living,
        resources={r: sum(n.resources.get(r, 0.0) for n in living) for r in RESOURCES},
        gpu=status.gpu,
        notes=status.notes,
        queue=urls.get(QUEUE, ""),
    )


def _offer(resources: Mapping[str, float]) -> str:
    cpus, gpus, memory = (resources.get(name, 0.0) for name in RESOURCES)
    return f"{cpus:3g} CPU  {gpus:3g} GPU  {memory / 1024**3:5.1f} GiB"


def only_running(jobs: Iterable[Job]) -> Job:
    """The one job that runs. Raises RefusedError when there is none, or more than one."""
    running = [job for job in jobs if not job.final]
    if not running:
        raise RefusedError("no job is running", "start one first: labctl submit digits --detach")
    if len(running) > 1:
        names = ", ".join(job.submission_id for job in running)
        raise RefusedError(f"{len(running)} jobs are running: {names}", "choose one with --job ID")
    return running[0]
