"""What pages and metrics see of the controller: read it under `lock`, and change nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kueue.engine import Engine
from kueue.places import Change
from lab.daemons.queue.model import Record, StoredEvent
from lab.host.clock import Clock


class Reader(Protocol):
    """The controller for whoever only reads it."""

    @property
    def lock(self) -> threading.RLock:
        """Hold it as long as anything below is read."""

    @property
    def engine(self) -> Engine:
        """Queues, quotas and workloads. `engine.items[key]` belongs to `jobs[key]`."""

    @property
    def jobs(self) -> Mapping[str, Record]:
        """Key -> job, all that there are, in the order of their creation."""

    @property
    def clock(self) -> Clock:
        """Seconds since the epoch."""

    @property
    def away(self) -> Mapping[str, str]:
        """`ray` or `store` -> reason why it does not answer; empty when both do."""

    @property
    def resource(self) -> str:
        """The name of a GPU among resources: `nvidia.com/gpu` or `amd.com/gpu`."""

    @property
    def capacity(self) -> Mapping[str, int]:
        """CPUs and GPUs of the lab, as quotas count them; empty while its nodes are not known."""

    def events(self, since: int = 0, limit: int = 1000, workload: str = "") -> Sequence[StoredEvent]:
        """Events with a number above `since`, oldest first; with `workload` those of one."""

    def listen(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Call `told` with what each step changed, under `lock`. It must be fast and raise nothing."""


Metrics = Callable[[], bytes]
"""The text of `GET /metrics`: `lab.daemons.queue.metrics.exposition(reader)` makes one of these, once."""
