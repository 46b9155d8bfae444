"""A cluster that nobody here runs: of itself it offers nothing to do, and only its ledger to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from lab.errors import UnsupportedError
from lab.evidence.receipt.model import Source
from lab.runtime.base import Execution, OnProgress, Runtime, ignore_progress
from lab.topology import Endpoints, GpuPlan, LabSpec, LabStatus, Struck, Vendor

NO_RAY = "of this cluster the ledger alone was read"
NO_LAB = "there is no lab here: whoever runs the cluster knows its nodes"


class OutsideRuntime(Runtime):
    """A cluster of which the object store is known, and nothing else."""

    kind = "outside"
    not_asked: Mapping[Source, str] = {Source.JOBS: NO_RAY, Source.NODES: NO_RAY, Source.SERVICES: NO_LAB}

    def status(self) -> LabStatus:
        """Nothing is known of its services."""
        return LabStatus(self.lab, self.kind, up=True, services=(), gpu=GpuPlan(Vendor.NONE))

    def spec(self) -> LabSpec:
        """Raises UnsupportedError."""
        self._refuse("tell the settings")

    def endpoints(self) -> Endpoints:
        """Raises UnsupportedError."""
        self._refuse("tell the addresses")

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Raises UnsupportedError."""
        self._refuse(f"read the log of {service}")

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Raises UnsupportedError."""
        self._refuse("start it")

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Raises UnsupportedError."""
        self._refuse("stop it")

    def kill(self, service: str) -> Struck:
        """Raises UnsupportedError."""
        self._refuse(f"kill {service}")

    def stop(self, service: str, *, timeout: float = 10.0) -> Struck:
        """Raises UnsupportedError."""
        self._refuse(f"stop {service}")

    def pause(self, service: str) -> Struck:
        """Raises UnsupportedError."""
        self._refuse(f"pause {service}")

    def resume(self, service: str) -> None:
        """Raises UnsupportedError."""
        self._refuse(f"resume {service}")

    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        """Raises UnsupportedError."""
        self._refuse(f"run a command in {service}")

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """Raises UnsupportedError."""
        self._refuse(f"start {service}")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"labctl does not run the cluster {self.lab}, and cannot {what}",
            "ask kubectl, or whoever runs it",
        )
