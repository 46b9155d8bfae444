"""Samples of the services' resource use while a fault lasts and training recovers, every two seconds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from lab.api.light import restore
from lab.cluster.allocation.loads import node_reports
from lab.errors import LabError
from lab.host.clock import WALL, Clock
from lab.host.reading import parse_json
from lab.lab import Lab
from lab.services import STORE, is_node
from lab.store.base import Store
from lab.topology import Usage, Vendor

SCHEMA = "usage/1"
"""Version of the JSON that `Samples.to_json` gives."""

ENDING = ".usage.json"
"""Suffix of the object beside a receipt that holds its samples."""

PERIOD_SECONDS = 2.0
SHARE = 0.05
"""Of one core, at most, for sampling: one of 32 loaders of data that were forked from 2 GB takes a second."""

STOP_SECONDS = 15.0
"""Deadline for the sample that is being taken to end: Ray's dashboard may be away for 10 s."""


@dataclass(frozen=True)
class Sample:
    """Resource use of all processes of one service at `at` (seconds since the epoch). None: not measured."""

    at: float
    service: str
    cpu_percent: float | None = None
    """100 is one core."""
    memory_bytes: int | None = None
    gpu_percent: float | None = None
    """Share of the time in which its GPUs computed, their mean; None also where they are simulated."""


@dataclass(frozen=True)
class Samples:
    """Samples by time, and the reason if there are none or fewer."""

    samples: tuple[Sample, ...] = ()
    problem: str = ""

    def to_json(self) -> dict[str, object]:
        """The document that is kept beside a receipt."""
        return {"schema": SCHEMA, "samples": [asdict(sample) for sample in self.samples]}

    def keep(self, store: Store, receipt: str) -> str:
        """Store the samples beside the receipt with this key; returns their key. Raises StoreError."""
        key = key_of(receipt)
        store.put(key, json.dumps(self.to_json()).encode())
        return key


def key_of(receipt: str) -> str:
    """The key of the samples that belong to the receipt with this key."""
    return receipt.removesuffix(".json") + ENDING


def read_samples(data: bytes) -> Samples:
    """Samples from a kept document; one in another form has none, and a `problem`."""
    try:
        document = parse_json(data)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return Samples(problem=f"the samples are not in the form {SCHEMA}")
    rows = document.get("samples")
    samples = [sample for row in (rows if isinstance(rows, list) else ()) if (sample := _sample(row))]
    return Samples(tuple(sorted(samples, key=lambda sample: sample.at)))


class Sampler:
    """Samples every Ray node and the object store periodically, in a thread of its own.

    It never raises and never holds up a recovery: what cannot be measured is left out.
    """

    def __init__(self, lab: Lab, clock: Clock = WALL, *, period: float = PERIOD_SECONDS) -> None:
        """`period`: seconds between two samples, more where one takes much processor time."""
        self._lab, self._clock, self._period = lab, clock, period
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples: list[Sample] = []
        self._problem = ""
        self._services: tuple[str, ...] = ()

    def start(self) -> None:
        """Begin. A second call changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="raylab-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> Samples:
        """End, and return what was found. Waits for the sample that is being taken, at most STOP_SECONDS."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        return Samples(tuple(self._samples), "" if self._samples else self._problem)

    def look(self) -> None:
        """Take one sample of every service. Raises nothing."""
        try:
            self._samples.extend(self._measure())
        except Exception as error:
            self._problem = f"resource use could not be measured: {getattr(error, 'message', repr(error))}"

    def _run(self) -> None:
        while not self._stopped.is_set():
            before = time.thread_time()
            self.look()
            self._stopped.wait(max(self._period, (time.thread_time() - before) / SHARE))

    def _measure(self) -> Iterable[Sample]:
        usage = self._lab.view.usage(self._named())
        at = self._clock()
        try:
            reported = self._reported(usage)
        except LabError as error:
            reported, self._problem = {}, f"Ray's view of the nodes is missing: {error.message}"
        samples = []
        for service in dict.fromkeys((*usage, *reported)):
            own, (memory, gpu) = usage.get(service), reported.get(service, (None, None))
            if own is not None and own.memory_bytes is not None:
                memory = own.memory_bytes
            samples.append(Sample(round(at, 3), service, own.cpu_percent if own else None, memory, gpu))
        return samples

    def _named(self) -> tuple[str, ...]:
        if not self._services:
            names = (status.service for status in self._lab.status().services)
            self._services = tuple(name for name in names if is_node(name) or name == STORE)
        return self._services

    def _reported(self, usage: Mapping[str, Usage]) -> dict[str, tuple[int | None, float | None]]:
        """Service -> memory and GPU use as Ray's reporters say, where they are the service's own.

        Nodes that share a machine all report the machine's memory: that is nobody's use, so it is left out.
        Ray is not asked for what the runtime has measured.
        """
        plan = self._lab.gpu_plan
        real = plan.vendor not in (Vendor.NONE, Vendor.SIMULATED)
        if not real and usage and all(own.memory_bytes is not None for own in usage.values()):
            return {}
        reports = node_reports(self._lab.api, plan)
        shared = len({report.host for report in reports}) < len(reports)
        return {
            report.service: (None if shared else report.memory_used, report.gpu_percent if real else None)
            for report in reports
        }


def _sample(row: object) -> Sample | None:
    try:
        return restore(Sample, row)
    except ValueError:
        return None
