"""Jobs and nodes of a cluster as their ledgers tell of them, where Ray itself cannot be asked."""

from __future__ import annotations

from collections.abc import Callable

from lab.cluster.api import Node, RayApi
from lab.cluster.checkpoints import JobLedger, ledgers
from lab.cluster.earlier import earlier_jobs
from lab.cluster.job_logs import WHOLE
from lab.cluster.jobs import Job, Jobs
from lab.errors import NotFoundError, StoreError
from lab.evidence.ledger import History
from lab.store import Store

MOST_NAMED = 5
"""Jobs that an error lists."""


class LedgerNodes(RayApi):
    """Nodes that ran a rank of the jobs that were asked for. When one began or ended is not known."""

    def __init__(self) -> None:
        super().__init__("", "")
        self.followed: dict[str, JobLedger] = {}

    def nodes(self) -> tuple[Node, ...]:
        """Every node in the order of its first rank. All count as alive: nobody says that one is dead."""
        names: dict[str, str] = {}
        for ledger in self.followed.values():
            for run in ledger.history.runs:
                for attempt in run.attempts:
                    for rank, node_id in attempt.nodes.items():
                        names[node_id] = attempt.services.get(rank) or names.get(node_id) or node_id
        return tuple(
            Node(node_id, service, True, False, {}, None, None, "") for node_id, service in names.items()
        )


class LedgerJobs(Jobs):
    """Jobs that trained with Ray Train. One counts as ended when every run that it began has ended."""

    def __init__(self, nodes: LedgerNodes, store: Store, ledger: Callable[[str], JobLedger]) -> None:
        """`nodes` takes up the nodes of each job that is asked for; `ledger` gives a job's ledger."""
        super().__init__(nodes)
        self._nodes, self._store, self._ledger = nodes, store, ledger

    def get(self, submission_id: str) -> Job:
        """The job as its ledger tells it now. Raises NotFoundError for one without, StoreError."""
        ledger = self._ledger(submission_id)
        try:
            ledger.poll()
        except StoreError:  # whoever watches reads the ledger too, and says so
            if not ledger.events:
                raise
        if not ledger.events:
            known = ledgers(self._store)
            hint = (
                f"jobs with a ledger there: {', '.join(known[-MOST_NAMED:])}"
                if known
                else "no job has a ledger there"
            )
            raise NotFoundError(f"no ledger of job {submission_id} is stored there", hint)
        self._nodes.followed[submission_id] = ledger
        return _job(submission_id, ledger.history, ledger.events[0].at)

    def list(self) -> tuple[Job, ...]:
        """The newest jobs that have not ended; of what has, only the newest. Raises StoreError."""
        return tuple(self.get(job.submission_id) for job in earlier_jobs(self._store, ()) if not job.ended_at)

    def logs(self, submission_id: str, last: int = WHOLE) -> str:
        """Nothing: the output of a job is not in its ledger."""
        del submission_id, last
        return ""


def _job(submission_id: str, history: History, began: float) -> Job:
    runs = history.runs
    ended = bool(runs) and all(run.finished_at is not None for run in runs)
    errors = [run.error for run in runs if run.error]
    status = ("FAILED" if errors else "SUCCEEDED") if ended else "RUNNING"
    return Job(
        submission_id=submission_id,
        status=status,
        message=f"its training failed: {errors[-1]}" if ended and errors else "",
        started_at=began,
        ended_at=max(run.finished_at or 0.0 for run in runs) if ended else None,
    )
