"""What pages and metrics see of the controller: read it under `lock`, and change nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lab.daemons.queue.model import Event, Record
from lab.host.clock import Clock
from lab.queue.engine import Engine
from lab.queue.model import Workload
from lab.queue.places import Change

Document = dict[str, Any]


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

    def events(self, since: int = 0, limit: int = 1000, workload: str = "") -> Sequence[Event]:
        """Events with a number above `since`, oldest first; with `workload` those of one."""

    def listen(self, told: Callable[[Sequence[Change]], None]) -> None:
        """Call `told` with what each step changed, under `lock`. It must be fast and raise nothing."""


class Pages(Protocol):
    """The documents of GET requests: `lab.daemons.queue.views`. All but two are called under `lock`.

    Raises NotFoundError for a workload or a queue that is not there, UsageError for a wrong parameter.
    """

    def workloads(self, reader: Reader, *, status: str, queue: str, limit: int) -> Document:
        """`GET /workloads`. `queue` is NAME, NS/NAME or empty."""

    def describe(self, reader: Reader, key: str) -> Document:
        """`GET /workloads/NS/NAME`."""

    def why(self, reader: Reader, key: str) -> Document:
        """`GET /workloads/NS/NAME/why`. It takes the lock itself, for a moment."""

    def queues(self, reader: Reader) -> Document:
        """`GET /queues`."""

    def dry_run(self, reader: Reader, workload: Workload) -> Document:
        """`POST /dry-run`: what would be if this workload were submitted now. It takes the lock itself."""


Metrics = Callable[[], bytes]
"""The text of `GET /metrics`: `lab.daemons.queue.metrics.exposition(reader)` makes one of these, once."""
