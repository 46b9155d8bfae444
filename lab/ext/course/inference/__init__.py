"""Loses a node under a batch of inference: waits for answers, kills a node with a replica, waits for the end.

A flow of its own, and a small one: that of recovery waits for the checkpoints of a training and follows its
attempts, and a batch has neither.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable

from lab.cluster.api import Row
from lab.cluster.jobs import Job
from lab.errors import NotFoundError, RefusedError
from lab.ext.course.batch_documents import BatchReceipt
from lab.ext.course.inference import receipt as inference
from lab.host.clock import WALL, Clock, poll, settle
from lab.lab import Lab
from lab.services import is_worker

REPLICA = "ServeReplica:llm-{job}-"
"""Beginning of the class of a job's replicas: Ray Serve's word, and its application (workspace/llm)."""

BEGIN_SECONDS = 600.0
"""Timeout for the batch to have so many answers."""

END_SECONDS = 3600.0

NOTICE_SECONDS = 5.0
"""Time in which a batch notices that an attempt is lost: its stream breaks at once."""

KILLS = 5
"""Most kills until a prompt was in work on the node."""

LOST = re.compile(r": attempt \d+ lost: ")
"""In the log of a batch (workspace/llm/batch.py)."""

Say = Callable[[str], None]


def batch_of(job: Job) -> str:
    """The name of a job's batch: its `--name`, or else the job's id."""
    words = shlex.split(job.entrypoint)
    places = [i for i, word in enumerate(words[:-1]) if word == "--name"]
    return words[places[-1] + 1] if places else job.submission_id


def lose_node(lab: Lab, job_id: str, target: str, after: int, say: Say, clock: Clock = WALL) -> BatchReceipt:
    """Kill a node under a batch that has `after` answers, start it again; returns the receipt of the batch.

    Without `target` it is a node with a replica. If no prompt was in work there, which a quick model makes
    likely, a node is killed once more, KILLS times at most. It is started again whatever happens. Raises
    NotFoundError, RefusedError for a node without a replica or a job that has ended, WaitTimeoutError.
    """
    folder = f"batches/{batch_of(lab.jobs.get(job_id))}/answers/"

    def begun() -> str | None:
        now = lab.jobs.get(job_id)
        if now.final:
            raise RefusedError(
                f"job {job_id} has ended ({now.status}) before it had {after} answers",
                "more prompts: -p prompts=512; or sooner: --after-answers 1",
            )
        return _aim(lab, job_id, target) if len(lab.store.list(folder)) >= after else None

    def again() -> str | None:
        """Empty when the batch has ended, None until the node is one again and has a replica."""
        if lab.jobs.get(job_id).final:
            return ""
        if any(one.alive and one.service == node for one in lab.api.nodes()):
            with contextlib.suppress(NotFoundError, RefusedError):
                return _aim(lab, job_id, target)
        return None

    waited_for = f"{after} answers in {folder}"
    node = poll(begun, timeout=BEGIN_SECONDS, waited_for=waited_for, clock=clock)
    for number in range(1, KILLS + 1):
        lost = _attempts_lost(lab, job_id)
        say(f"{len(lab.store.list(folder))} answers are there; {node} is killed")
        try:
            lab.control.kill(node)
        finally:
            lab.control.start(node, wait=False)
        say(f"{node} is started again")
        if number == KILLS or _hit(lab, job_id, lost, clock):
            break
        say(f"no prompt was in progress on {node}")
        node = poll(again, timeout=BEGIN_SECONDS, waited_for=f"{node} and a replica", clock=clock)
        if not node:
            break

    def ended() -> Job | None:
        now = lab.jobs.get(job_id)
        return now if now.final else None

    last = poll(ended, timeout=END_SECONDS, waited_for=f"the end of job {job_id}", clock=clock)
    say(f"job {job_id} has ended: {last.status}")
    return inference.judge(inference.read(lab.store, job_id))


def _attempts_lost(lab: Lab, job_id: str) -> int:
    """Attempts that the batch has lost so far, by its log."""
    return len(LOST.findall(lab.jobs.logs(job_id)))


def _hit(lab: Lab, job_id: str, before: int, clock: Clock) -> bool:
    """Tell whether a batch that had lost `before` attempts has lost one by a kill, or has ended."""

    def hit() -> bool:
        return _attempts_lost(lab, job_id) > before or lab.jobs.get(job_id).final

    return settle(hit, bool, timeout=NOTICE_SECONDS, clock=clock)


def _aim(lab: Lab, job_id: str, target: str) -> str:
    """The service to kill. Raises NotFoundError, RefusedError."""
    services = {node.node_id: node.service for node in lab.api.nodes() if node.alive}
    mine = REPLICA.format(job=job_id)

    def replica(row: Row) -> str:
        serves = str(row.get("class_name") or "").startswith(mine) and row.get("state") == "ALIVE"
        return services.get(str(row.get("node_id")), "") if serves else ""

    replicas = sorted({name for name in lab.api.rows("actors", replica) if is_worker(name)})
    if not replicas:
        raise NotFoundError(
            f"job {job_id} has no replica of Ray Serve on a worker",
            "only a job of llm-batch has, one without `-p url=`",
        )
    if target and target not in replicas:
        raise RefusedError(
            f"{target} runs no replica of the batch", f"choose one that does: {', '.join(replicas)}"
        )
    return target or replicas[0]
