"""Records the faults of a job as objects in the store, so that charts and reports show them later."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from lab.api.light import restore
from lab.errors import StoreError
from lab.host.reading import parse_json
from lab.store import MissingObjectError, Store

FAULTS_PREFIX = ".raylab/faults"
"""Folder of the bucket in which the faults are recorded, one folder per job."""


@dataclass(frozen=True)
class LoggedFault:
    """A fault as it is recorded in the store. Times are seconds since the epoch."""

    kind: str
    target: str
    at: float
    reverted_at: float | None = None
    """None while it lasts, and for good when its revert failed or labctl was killed."""
    node_id: str = ""
    """Ray's id of the node that it hit; empty where it hit none."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    """URIs of the checkpoints that it damaged."""
    store_refusals: int = 0
    slowest_read: float = 0.0
    """These two are of a fault of the store; see FaultRecord."""
    run: str = ""
    """The run that it was aimed at, of several in a job."""


class FaultLog:
    """Records one fault: when it begins, and again when it has been reverted."""

    def __init__(self, store: Store, job: str, fault: LoggedFault) -> None:
        """`job` is the one it hits. Writes nothing yet."""
        self._store, self.fault = store, fault
        """The fault as it is known now."""
        self._recorded: LoggedFault | None = None
        self.key = f"{FAULTS_PREFIX}/{job}/{int(fault.at * 1000)}-{fault.target}.json"
        self.problem = ""
        """The reason why the last record could not be written; empty if it was."""

    def take_up(self) -> None:
        """Go on with what was recorded of it before, by another process. Raises StoreError."""
        with contextlib.suppress(MissingObjectError):
            self.fault = read_fault(self._store.get(self.key)) or self.fault

    def record(self, reverted_at: float | None = None, *, again: bool = False) -> None:
        """Record the fault, and when it was reverted: once for each change; `again` after a failure."""
        fault = replace(self.fault, reverted_at=reverted_at)
        if fault == self._recorded and not (again and self.problem):
            return
        self._recorded, self.problem = fault, ""
        try:
            self._store.put(self.key, json.dumps(asdict(fault)).encode())
        except StoreError as error:
            self.problem = f"the fault could not be recorded in the object store: {error.message}"


def read_fault(data: bytes) -> LoggedFault | None:
    """Return the fault in such an object, or None for one that holds none."""
    try:
        return restore(LoggedFault, parse_json(data))
    except ValueError:
        return None
