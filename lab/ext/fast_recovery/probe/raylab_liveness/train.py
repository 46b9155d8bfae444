"""A rank is hung by the controller's own time: RAY_TRAIN_CALLBACKS=...,raylab_liveness.train.Liveness

Ray Train's controller (2.60) asks each rank for its status again and again, and takes one for hung that has
left a question unanswered for RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S. It counts by the clock: after a pause
of the whole machine every rank has been silent as long. Here a silence grows with each poll by no more than
`LONGEST_POLL_SECONDS`: what passed while the controller itself did not run is nobody's silence. The classes
used here are internal to Ray.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ray.train.v2._internal.exceptions import WorkerHealthCheckTimeoutError
from ray.train.v2._internal.execution.callback import ControllerCallback

from raylab_ledger.rank import quietly
from raylab_switches import active

LONGEST_POLL_SECONDS = 1.0
"""Time from one poll to the next, of a controller that runs; it is a fifth of a second on an idle machine."""


class Liveness(ControllerCallback):
    """Changes how the controller of a run counts the silence of its ranks; nothing else."""

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        if active("liveness"):
            from ray.train.v2._internal.execution.worker_group import WorkerGroup

            count_own_time(WorkerGroup)


def count_own_time(group_class: Any, clock: Callable[[], float] = time.monotonic) -> None:
    """Let groups of this class take a rank for hung only by the time in which they asked."""
    poll = group_class._poll_workers_and_collect_errors

    @functools.wraps(poll)
    def _poll_workers_and_collect_errors(self: Any, timeout: float | None) -> Any:
        statuses = poll(self, timeout)
        now = clock()
        last, silences = getattr(self, "raylab_polled", (now, {}))
        own = min(now - last, LONGEST_POLL_SECONDS)
        silences = {rank: silences.get(rank, 0.0) + own for rank in self._world_rank_to_ongoing_poll}
        self.raylab_polled = (now, silences)
        for rank, status in enumerate(statuses):
            hung = isinstance(status.error, WorkerHealthCheckTimeoutError)
            if hung and silences.get(rank, 0.0) < self._worker_health_check_timeout_s:
                status.error = None
        return statuses

    group_class._poll_workers_and_collect_errors = _poll_workers_and_collect_errors
