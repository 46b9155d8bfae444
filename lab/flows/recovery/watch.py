"""What is known of a job while it is watched: its ledger, the cluster's nodes, what Ray says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.errors import ClusterError, NotFoundError, StoreError
from lab.evidence.ledger import Event, History, Number, Run, RunAttempt, epochs_of
from lab.lab import Lab
from lab.topology import HEAD

if TYPE_CHECKING:
    from lab.cluster.explain import Explanation

POLL_SECONDS = 0.25
"""Pause between two looks at the ledger."""

NODES_POLL_SECONDS = 0.5
"""Pause between two looks at Ray."""

SETTLE_POLLS = 3
"""Looks at the ledger after the job has ended: its last lines may still be on their way."""


class Watch:
    """What is known of a job: refreshed by `poll`, which bears a cluster that does not answer."""

    def __init__(self, lab: Lab, submission_id: str, clock: Callable[[], float]) -> None:
        self.submission_id = submission_id
        self.target = ""
        """The service that a fault is meant for, once that is known."""
        self.felt = (0, 0.0)
        """Of the store since `felt_anew`: how often it did not let the ledger be read, and the seconds that
        the slowest look at it took."""
        self._problems: dict[str, str] = {}
        self.nodes: tuple[Node, ...] = ()
        self.job: Job | None = None
        self._lab, self._clock = lab, clock
        self._ledger = lab.ledger(submission_id)
        self._nodes_at = 0.0

    def poll(self) -> None:
        """Read what is new."""
        began = self._clock()
        try:
            self._ledger.poll()
            self._problems.pop("ledger", None)
        except StoreError as error:
            self.felt = (self.felt[0] + 1, self.felt[1])
            self._problems["ledger"] = f"the ledger could not be read: {error.message}"
        self.felt = (self.felt[0], max(self.felt[1], self._clock() - began))
        now = self._clock()
        if now - self._nodes_at >= NODES_POLL_SECONDS:
            try:
                self.nodes = self._lab.api.nodes()
                self.job = self._lab.jobs.get(self.submission_id)
                self._nodes_at = now
                self._problems.pop("ray", None)
                if self._driver_lost(self.job):
                    self._gone(
                        self.job, now, "the node of its entrypoint was lost, which Ray does not notice"
                    )
            except NotFoundError:
                if self.job is None:
                    raise
                self._gone(self.job, now, "the new head does not know it")
            except ClusterError as error:
                self._problems["ray"] = f"Ray did not answer: {error.message}"

    def _driver_lost(self, job: Job) -> bool:
        """Whether the job's entrypoint ran on a node that is dead, although Ray says that it goes on.

        So it is (ray 2.60) when a head comes back with its state: its jobs stay RUNNING for ever.
        """
        dead = {node.node_id for node in self.nodes if not node.alive and node.service == HEAD}
        return not job.final and job.node_id in dead

    def _gone(self, job: Job, now: float, why: str) -> None:
        """The job died with its head."""
        if not job.final:
            message = f"the head was lost, and with it job {self.submission_id}: {why}"
            self.job = replace(job, status="FAILED", message=message, ended_at=now)
        self._nodes_at = now
        self._problems.pop("ray", None)

    def felt_anew(self) -> None:
        """From here on `felt` counts."""
        self.felt = (0, 0.0)

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.job is not None and self.job.final

    @property
    def events(self) -> Sequence[Event]:
        """Everything that was read of the ledger so far."""
        return self._ledger.events

    @property
    def history(self) -> History:
        """What those events tell."""
        return self._ledger.history

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read when it was last asked for; a silence before that does not count."""
        return tuple(self._problems.values())

    @property
    def run(self) -> Run | None:
        """The newest run; of several that go on at once, as under Ray Tune, the newest on the target."""
        runs = self.history.runs
        node = self.node_of(self.target) if self.target else None
        on_target = [
            run for run in runs if node and (attempt := _live(run)) and node.node_id in attempt.nodes.values()
        ]
        found = on_target or list(runs)
        return found[-1] if found else None

    @property
    def attempt(self) -> RunAttempt | None:
        """The newest attempt of that run."""
        return self.run.attempts[-1] if self.run and self.run.attempts else None

    @property
    def live_attempt(self) -> RunAttempt | None:
        """The attempt of that run that trains now, as far as the ledger says."""
        return _live(self.run)

    def log(self) -> str:
        """All that the job's entrypoint has written so far. Raises NotFoundError, ClusterError."""
        return self._lab.jobs.logs(self.submission_id)

    def why_failed(self) -> Explanation | None:
        """Why the job failed; None where it did not, or for a reason that is not known."""
        return self._lab.why_failed(self.job) if self.job is not None else None

    def node_of(self, service: str) -> Node | None:
        """The living node of a service."""
        return next((n for n in reversed(self.nodes) if n.alive and n.service == service), None)


def follow_to_end(watch: Watch, sleep: Callable[[float], None], look: Callable[[], None]) -> Job:
    """Poll until the job has ended and its ledger is complete; the job as it was then.

    `look` is called after every poll; raising is how it ends the wait before its time.
    """
    settle = SETTLE_POLLS
    while True:
        watch.poll()
        look()
        if watch.job is not None and watch.job.final:
            if not settle:
                return watch.job
            settle -= 1
        sleep(POLL_SECONDS)


def _live(run: Run | None) -> RunAttempt | None:
    """The newest attempt of a run if it trains now, as far as the ledger says."""
    if run is None or not run.attempts or run.finished_at is not None:
        return None
    newest = run.attempts[-1]
    trains = newest.nodes and newest.ended_at is None and newest.failure_detected_at is None
    return newest if trains else None


def progress_name(run: Run | None) -> str:
    """What the run counts its progress in, such as `epoch`."""
    return (run.progress_key if run else None) or "epoch"


def progress_text(run: Run, progress: Number) -> str:
    """How far the run is, among the epochs that it plans if it counts those: `epoch 4 of 20`."""
    epochs = epochs_of(run)
    if epochs is None or epochs.key != run.progress_key:
        return f"{progress_name(run)} {progress}"
    return epochs.told(progress)
