"""Lesson 1: boot the lab and look at what it consists of."""

from __future__ import annotations

from lab.cluster.api import Node
from lab.ext.course.lessons.model import Evidence, Lesson, check, holds
from lab.services import is_worker

LEAST_WORKERS = 2


def workers(evidence: Evidence) -> dict[str, Node]:
    """The living workers, by service."""
    return {n.service: n for n in evidence.nodes if n.alive and is_worker(n.service)}


@check("nodes are alive", "`labctl status` says what is down; `labctl up` starts it")
def nodes_alive(evidence: Evidence) -> str:
    alive = [node for node in evidence.nodes if node.alive]
    heads, count = sum(node.head for node in alive), len(workers(evidence))
    names = ", ".join(sorted(node.service for node in alive))
    return holds(heads == 1 and count >= LEAST_WORKERS, f"{heads} head, {count} workers: {names}")


@check("each worker has a GPU", "`labctl down`, then `labctl up --gpu simulated`")
def gpu_for_each_worker(evidence: Evidence) -> str:
    offers = {service: node.resources.get("GPU", 0) for service, node in workers(evidence).items()}
    detail = ", ".join(f"{service}: {gpus:g}" for service, gpus in sorted(offers.items())) or "no worker"
    return holds(bool(offers) and all(gpus >= 1 for gpus in offers.values()), detail)


@check("a task ran on each worker", "run the notebook's cell with the tasks again")
def task_on_each_worker(evidence: Evidence) -> str:
    """The notebook knows the id of each node, which only Ray gives."""
    recorded = evidence.records.get("tasks") or {}
    alive = workers(evidence)
    without = [service for service, node in alive.items() if recorded.get(service) != node.node_id]
    holds(bool(alive) and not without, f"none is known on {', '.join(sorted(without)) or 'any worker'}")
    return ", ".join(sorted(alive))


LESSON = Lesson(
    number=1,
    name="boot-and-look",
    title="Boot and look",
    minutes=10,
    in_class=False,
    checks=(nodes_alive, gpu_for_each_worker, task_on_each_worker),
)
