"""A cluster that nobody here runs: of itself it shows nothing, and only its ledger can be looked at."""

from __future__ import annotations

from collections.abc import Mapping

from lab.errors import UnsupportedError
from lab.evidence.receipt.model import Source
from lab.runtime.base import LabView
from lab.topology import Endpoints, GpuPlan, LabSpec, LabStatus, Vendor

NO_RAY = "of this cluster the ledger alone was read"
NO_LAB = "there is no lab here: whoever runs the cluster knows its nodes"


class OutsideView(LabView):
    """A cluster of which the object store is known, and nothing else."""

    kind = "outside"
    not_asked: Mapping[Source, str] = {Source.JOBS: NO_RAY, Source.NODES: NO_RAY, Source.SERVICES: NO_LAB}

    def status(self) -> LabStatus:
        """Nothing is known of its services."""
        return LabStatus(self.lab, self.kind, up=True, services=(), gpu=GpuPlan(Vendor.NONE))

    def spec(self) -> LabSpec:
        """Refuse: nobody knows the settings. Raises UnsupportedError."""
        raise self.refusal("say its settings", "status")

    def endpoints(self) -> Endpoints:
        """Refuse: nobody knows the addresses. Raises UnsupportedError."""
        raise self.refusal("say its addresses", "status --addresses")

    def refusal(self, act: str, command: str) -> UnsupportedError:
        del command
        return UnsupportedError(
            f"labctl does not run the cluster {self.lab}, and cannot {act}",
            "ask kubectl, or whoever runs it",
        )
