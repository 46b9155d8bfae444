"""A cluster that nobody here runs: of itself it offers nothing to do, and only its ledger to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lab.errors import UnsupportedError
from lab.evidence.receipt.model import Source
from lab.runtime.base import Runtime
from lab.topology import GpuPlan, LabStatus, Vendor

NO_RAY = "of this cluster the ledger alone was read"
NO_LAB = "there is no lab here: whoever runs the cluster knows its nodes"


def _refusing(what: str) -> Callable[..., Any]:
    """An act that nobody here can do: its name, with `{}` for the service."""

    def refuse(self: OutsideRuntime, service: object = "", *_: object, **__: object) -> Any:
        raise self._refusal(what.format(service))

    return refuse


class OutsideRuntime(Runtime):
    """A cluster of which the object store is known, and nothing else."""

    kind = "outside"
    not_asked: Mapping[Source, str] = {Source.JOBS: NO_RAY, Source.NODES: NO_RAY, Source.SERVICES: NO_LAB}

    def status(self) -> LabStatus:
        """Nothing is known of its services."""
        return LabStatus(self.lab, self.kind, up=True, services=(), gpu=GpuPlan(Vendor.NONE))

    spec = _refusing("tell the settings")
    endpoints = _refusing("tell the addresses")
    logs = _refusing("read the log of {}")
    up = _refusing("start it")
    down = _refusing("stop it")
    kill = _refusing("kill {}")
    stop = _refusing("stop {}")
    pause = _refusing("pause {}")
    resume = _refusing("resume {}")
    execute = _refusing("run a command in {}")
    start = _refusing("start {}")

    def _refusal(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"labctl does not run the cluster {self.lab}, and cannot {what}",
            "ask kubectl, or whoever runs it",
        )
