"""A watch on one job: its ledger, the cluster's nodes, and its status, refreshed by polling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.cluster.outage import FORGOTTEN, OnOutage, Outage, lost_with_head, say_nothing
from lab.errors import ClusterError, LabDownError, LabError, NotFoundError, StoreError
from lab.evidence.ledger import Event, History, Number, Run, RunAttempt, epochs_of
from lab.host.clock import WALL, Clock
from lab.lab import Lab

POLL_SECONDS = 0.25
"""Between two polls of the ledger: the timeline of a recovery is as fine as this."""

REST, LONGEST_REST_SECONDS = 4.0, 2.0
"""Pause after a read of the ledger, as a multiple of the time that it took, and at most.

A long ledger takes long to list, in the store too: read without a pause it would slow down the training.
"""

NODES_POLL_SECONDS = 0.5
"""Between two requests to Ray."""

GONE_SECONDS = 2.0
"""Between two looks whether the lab is still there, while something of it does not answer."""

LAST_POLLS = 3
"""Polls after the job has ended: the last lines of its ledger may still be on their way."""


@dataclass(frozen=True)
class StoreOutages:
    """Failed reads of the ledger, and the seconds that the slowest read took."""

    refusals: int = 0
    slowest_read: float = 0.0


class Watch:
    """Snapshot of a job, refreshed by `poll`; a cluster or a store that does not answer is a problem."""

    def __init__(
        self, lab: Lab, submission_id: str, clock: Clock = WALL, on_outage: OnOutage = say_nothing
    ) -> None:
        """`clock` counts seconds since the epoch; whoever waits beside this watch waits on it too.

        `on_outage` hears that the head is down.
        """
        self.lab, self.submission_id, self.clock = lab, submission_id, clock
        self.target = ""
        """The service that a fault is meant for, once that is known."""
        self.focus = ""
        """Name of the run that a fault is aimed at, once that is known."""
        self.store_outages = StoreOutages()
        """Since it was last reset to this."""
        self.nodes: tuple[Node, ...] = ()
        self.job: Job | None = None
        self.outage = Outage(clock, on_outage)
        self._problems: dict[str, str] = {}
        self._ledger = lab.ledger(submission_id)
        self._nodes_at = self._looked_at = self._read_at = self._rest = 0.0

    def poll(self) -> None:
        """Read what is new. Raises NotFoundError for a job that never was, LabDownError without the lab."""
        if not 0 <= self.clock() - self._read_at < self._rest:
            self._read_ledger()
        now = self.clock()
        if now - self._nodes_at >= NODES_POLL_SECONDS:
            self._poll_ray(now)
        if self._problems and now - self._looked_at >= GONE_SECONDS:
            self._looked_at = now
            if self.gone():
                raise LabDownError(
                    f"lab {self.lab.name} was taken down meanwhile, and job {self.submission_id} with it",
                    "start it again: `labctl up`",
                )

    def _read_ledger(self) -> None:
        began, failed = self.clock(), 0
        try:
            self._ledger.poll()
            self._problems.pop("ledger", None)
        except StoreError as error:
            failed = 1
            self._problems["ledger"] = f"the ledger could not be read: {error.message}"
        self._read_at, so_far = self.clock(), self.store_outages
        took = self._read_at - began
        self._rest = min(REST * took, LONGEST_REST_SECONDS)
        self.store_outages = StoreOutages(so_far.refusals + failed, max(so_far.slowest_read, took))

    def _poll_ray(self, now: float) -> None:
        try:
            self.nodes = self.lab.api.nodes()
            self.job = self.lab.jobs.get(self.submission_id)
        except NotFoundError:
            if self.job is None:
                raise
            if not self.job.final:
                message = lost_with_head(self.submission_id, FORGOTTEN).message
                self.job = replace(self.job, status="FAILED", message=message, ended_at=now, lost=True)
        except ClusterError as error:
            self.outage.hear(error)
            self._problems["ray"] = f"Ray did not answer: {error.message}"
            return
        self.outage.hear(self.job)
        self._nodes_at = now
        self._problems.pop("ray", None)

    def gone(self) -> bool:
        """Ask if nothing of the lab runs any more. A runtime that cannot tell leaves it as it is."""
        if self.lab.view.not_asked:
            return False
        try:
            self.lab.view.spec()
        except LabDownError:
            return True
        except LabError:
            return False
        return False

    def read_the_rest(self, look: Callable[[], None] = lambda: None) -> None:
        """Poll a few times more once the job has ended, so that its ledger is complete; `look` after each."""
        for _ in range(LAST_POLLS):
            self.clock.sleep(POLL_SECONDS)
            self._rest = 0.0
            self.poll()
            look()

    @property
    def over(self) -> bool:
        """True once the job has ended."""
        return self.job is not None and self.job.final

    @property
    def status(self) -> str:
        """The job's status, or `unknown` while Ray has not told it."""
        return self.job.status if self.job else "unknown"

    @property
    def events(self) -> Sequence[Event]:
        """Everything that was read of the ledger so far."""
        return self._ledger.events

    @property
    def history(self) -> History:
        """The runs that those events tell of."""
        return self._ledger.history

    @property
    def problems(self) -> tuple[str, ...]:
        """Sources that did not answer at the last poll; an outage that has ended does not count."""
        return tuple(self._problems.values())

    @property
    def run(self) -> Run | None:
        """The run in focus, else the newest; of several at once, as under Ray Tune, the newest on the
        target."""
        runs = self.history.runs
        focus = [run for run in runs if run.name == self.focus]
        candidates = focus or (self.target and self.live_runs) or runs
        return candidates[-1] if candidates else None

    @property
    def live_runs(self) -> tuple[Run, ...]:
        """The runs that train now; only those on the target, where there are any."""
        node = self.node_of(self.target) if self.target else None
        live = [(run, attempt) for run in self.history.runs if (attempt := _live(run)) is not None]
        on_target = [run for run, attempt in live if node and node.node_id in attempt.nodes.values()]
        return tuple(on_target or (run for run, _ in live))

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
        return self.lab.jobs.logs(self.submission_id)

    def node_of(self, service: str) -> Node | None:
        """The living node of a service."""
        return next((n for n in reversed(self.nodes) if n.alive and n.service == service), None)


def _live(run: Run | None) -> RunAttempt | None:
    """The newest attempt of a run if it trains now, as far as the ledger says."""
    if run is None or not run.attempts or run.finished_at is not None:
        return None
    newest = run.attempts[-1]
    trains = newest.nodes and newest.ended_at is None and newest.failure_detected_at is None
    return newest if trains else None


def progress_name(run: Run | None) -> str:
    """The name of what the run counts its progress in, such as `epoch`."""
    return (run.progress_key if run else None) or "epoch"


def progress_text(run: Run, progress: Number) -> str:
    """The progress of a run, among the epochs that it plans if it counts those: `epoch 4 of 20`."""
    epochs = epochs_of(run)
    if epochs is None or epochs.key != run.progress_key:
        return f"{progress_name(run)} {progress}"
    return epochs.position(progress)
