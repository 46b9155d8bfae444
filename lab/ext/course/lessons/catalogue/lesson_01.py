"""Lesson 1: boot the lab and look at what it consists of."""

from __future__ import annotations

from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed, passed
from lab.services import is_worker
from lab.topology import Check

LEAST_WORKERS = 2


def nodes_alive(evidence: Evidence) -> Check:
    """The head and two workers are alive in Ray."""
    name = "nodes are alive"
    alive = [node.service for node in evidence.nodes if node.alive]
    heads = sum(node.head for node in evidence.nodes if node.alive)
    workers = sum(map(is_worker, alive))
    detail = f"{heads} head, {workers} workers: {', '.join(sorted(alive))}"
    whole = heads == 1 and workers >= LEAST_WORKERS
    return answer(whole, name, detail, "`labctl status` says what is down; `labctl up` starts it")


def gpu_for_each_worker(evidence: Evidence) -> Check:
    """Every living worker offers a GPU to Ray."""
    name = "each worker has a GPU"
    offers = {
        node.service: node.resources.get("GPU", 0)
        for node in evidence.nodes
        if node.alive and is_worker(node.service)
    }
    detail = ", ".join(f"{service}: {gpus:g}" for service, gpus in sorted(offers.items())) or "no worker"
    everywhere = bool(offers) and all(gpus >= 1 for gpus in offers.values())
    return answer(everywhere, name, detail, "`labctl down`, then `labctl up --gpu simulated`")


def task_on_each_worker(evidence: Evidence) -> Check:
    """The notebook's tasks ran on every worker: it knows the id of each node, which only Ray gives."""
    name = "a task ran on each worker"
    alive = {node.service: node.node_id for node in evidence.nodes if node.alive and is_worker(node.service)}
    recorded = evidence.records.get("tasks") or {}
    right = sorted(service for service, node_id in alive.items() if recorded.get(service) == node_id)
    if alive and len(right) == len(alive):
        return passed(name, ", ".join(right))
    without = ", ".join(sorted(set(alive) - set(right))) or "any worker"
    return failed(name, f"none is known on {without}", "run the notebook's cell with the tasks again")


LESSON = Lesson(
    number=1,
    name="boot-and-look",
    title="Boot and look",
    notebook="01-boot-and-look.ipynb",
    minutes=10,
    in_class=False,
    checks=(nodes_alive, gpu_for_each_worker, task_on_each_worker),
)
