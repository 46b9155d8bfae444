"""Faults of a person of a class: its gateway injects them, and here they are asked for and followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.api.light import answer
from lab.api.people import NOT_YET, FaultOrder, FaultSeen
from lab.api.receipt import ReceiptDocument
from lab.errors import ClusterError, LabDownError, LabError, RefusedError, UnsupportedError
from lab.flows.recovery.request import FaultRequest
from lab.host.clock import WALL, Clock, poll
from lab.host.reading import parse_json
from lab.lab import Lab
from lab.runtime.base import OnProgress, ignore_progress

POLL_SECONDS = 1.0
TRAINS_SECONDS, FOLLOWED_SECONDS, START_SECONDS = 600.0, 2 * 3600.0, 120.0
"""Deadlines for a job to train, for a fault to be over, and for a node to be back."""


@dataclass(frozen=True)
class Asked:
    """A fault that was asked for, once it is over or, where nobody waited, begun."""

    node: str
    code: int = 0
    """Exit code of the labctl that injected it."""
    receipt: ReceiptDocument | None = None


def ask(
    lab: Lab, request: FaultRequest, say: Callable[[str], None], *, wait: bool = True, clock: Clock = WALL
) -> Asked:
    """Let the gateway break a node under a job of one's own and, with `wait`, follow what labctl says there.

    Raises NotFoundError; RefusedError with who would be hit; what `answer` raises for a receipt.
    """
    if request.parameters or request.timeout is not None or request.spare_others:
        raise UnsupportedError(
            "in a class a fault takes neither -p nor --timeout nor --spare-others",
            lab.view.advice(["fault-inject"], ""),
        )
    job = request.job or _only_job(lab)
    order = FaultOrder(
        request.kind, request.target, request.leave_down, request.after_epoch, request.after_seconds,
        request.duration,
    )  # fmt: skip
    node = _begin(lab, job, order, say, clock)
    say(f"{request.kind} of {node} under job {job}: waiting for its moment")
    if not wait:
        return Asked(node)
    seen = _follow(lab, job, say, clock)
    document = parse_json(seen.printed) if seen.printed.strip() else {}
    if not isinstance(document, dict) or "verdict" not in document:
        return Asked(node, seen.code or 0)
    return Asked(node, seen.code or 0, answer(ReceiptDocument, document, "the receipt", ClusterError))


def _begin(lab: Lab, job: str, order: FaultOrder, say: Callable[[str], None], clock: Clock) -> str:
    """Order it, once the job trains; the node. Raises NotFoundError, RefusedError, WaitTimeoutError."""
    said: list[str] = []

    def begin() -> str | None:
        try:
            return lab.queues.break_node(job, order).killed
        except RefusedError as error:
            if error.hint != NOT_YET:
                raise
            if not said:
                said.append(error.message)
                say(f"waiting for job {job} to train: {error.message}")
            return None

    return poll(
        begin, timeout=TRAINS_SECONDS, waited_for=f"job {job} to train", clock=clock, every=POLL_SECONDS,
        state=lambda: "".join(said),
    )  # fmt: skip


def _follow(lab: Lab, job: str, say: Callable[[str], None], clock: Clock) -> FaultSeen:
    """Say each line once, until the fault is over."""
    said: list[str] = []

    def look() -> FaultSeen | None:
        try:
            seen = lab.queues.fault(job)
        except LabDownError:  # the gateway is started again
            return None
        new = list(seen.lines)
        while new and said and new[0] != said[0]:  # the oldest are no longer given
            del said[0]
        for line in new[len(said) :]:
            say(line)
        said[:] = new
        return seen if seen.code is not None else None

    return poll(
        look, timeout=FOLLOWED_SECONDS, waited_for="the fault to be over", clock=clock, every=POLL_SECONDS
    )


def restart(
    lab: Lab, service: str, on_progress: OnProgress = ignore_progress, *, clock: Clock = WALL
) -> None:
    """`lab.restart`; in a class the start of a node that was left down, until it is in the cluster.

    Raises RefusedError, WaitTimeoutError, too.
    """
    if not lab.view.person:
        lab.restart(service, on_progress)
        return
    before = {node.node_id for node in lab.api.nodes()}  # Ray may hold one for alive that has just ended
    lab.queues.start_node(service)

    def back() -> bool | None:
        try:
            new = [node for node in lab.api.nodes() if node.alive and node.node_id not in before]
        except LabError:
            return None
        return any(node.service == service for node in new) or None

    poll(
        back,
        timeout=START_SECONDS,
        waited_for=f"{service} to be in the cluster",
        clock=clock,
        every=POLL_SECONDS,
    )


def _only_job(lab: Lab) -> str:
    """Her one job that runs. Raises RefusedError."""
    mine = lab.view.person
    running = [
        row.name for row in lab.queues.list().workloads if (row.namespace, row.status) == (mine, "Admitted")
    ]
    if len(running) != 1:
        there = f"several run: {', '.join(running)}" if running else "no job of yours runs"
        raise RefusedError(there, "say which: --job ID" if running else "submit one: labctl submit digits")
    return running[0]
