"""Finds the subject of a report, and everything that can be learned of it from a file and from a lab."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lab.api.base import parse
from lab.api.ledger import RunStarted
from lab.api.receipt import ReceiptDocument
from lab.cluster.ray_settings import environment
from lab.cluster.submission import RESUMES
from lab.errors import LabDownError, LabError, NotFoundError, UsageError
from lab.evidence.ledger import Event, History, of_kind
from lab.evidence.receipt import compare_curves
from lab.ext.report.model import ReportEvidence, Subject
from lab.faults.records import LoggedFault
from lab.flows.recovery.control import control_of
from lab.flows.recovery.lost import recorded_faults
from lab.host.reading import parse_json, read_bytes
from lab.lab import Lab
from lab.services import is_worker
from lab.topology import RECEIPTS_PREFIX, GpuPlan, Vendor

NAME = re.compile(r"(?P<job>.+)-(?P<at>\d+)")
"""Name of a receipt in the store, without `.json`: the job, and the time of the fault in whole seconds."""

MAX_SECONDS = 1e11
"""Any point in time is less after 1970: this is in the year 5138."""

SAME_SECONDS = 0.01
"""Times that are nearer are one, written once in a ledger and once in a receipt."""

LISTED = 5
"""Receipts and jobs that an error names."""


def find_subject(lab: Lab, what: str = "") -> Subject:
    """Find a receipt by its file or its name in the store, or a job by its id; empty: the newest receipt.

    Raises NotFoundError that lists what there is, UsageError for a file that is no receipt, LabDownError,
    StoreError.
    """
    if what and (os.path.isfile(what) or "/" in what.removeprefix(f"{RECEIPTS_PREFIX}/")):
        receipt = read_receipt(Path(what))
        return Subject(receipt.job.submission_id, receipt)
    receipts = _receipts(lab)
    wanted = what.removeprefix(f"{RECEIPTS_PREFIX}/").removesuffix(".json")
    named = [name for name in receipts if not what or wanted in (name, NAME.sub(r"\g<job>", name))]
    if named:
        key = f"{RECEIPTS_PREFIX}/{named[-1]}.json"
        receipt = parse_receipt(lab.store.get(key), key)
        return Subject(receipt.job.submission_id, receipt, key)
    jobs = [job.submission_id for job in lab.jobs.list()]
    if what in jobs:
        return Subject(what)
    known = f"receipts: {_listed(reversed(receipts))}; jobs: {_listed(jobs)}"
    if not what:
        raise NotFoundError("there is no receipt in this lab's object store", f"name a job; {known}")
    raise NotFoundError(f"there is no receipt, job or file {what!r}", known)


def read_receipt(path: Path) -> ReceiptDocument:
    """The receipt in a file. Raises NotFoundError, UsageError."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from error
    return parse_receipt(data, str(path))


def parse_receipt(data: bytes, where: str) -> ReceiptDocument:
    """A receipt from its JSON; of several documents, one a line (as `demo --json` prints them), the last.

    Raises UsageError that says what is wrong with `where`.
    """
    document: object = None
    lines = [line for line in data.splitlines() if line.strip()]
    for text in (data, lines[-1] if lines else b""):
        try:
            document = parse_json(text)
            break
        except ValueError:
            continue
    how = "save one with `labctl fault-inject ... --json > FILE`"
    if not isinstance(document, dict):
        raise UsageError(f"{where} is not a receipt: not JSON", how)
    if document.get("schema") != "recovery-receipt/1":
        other = repr(document.get("schema"))
        raise UsageError(
            f"{where} is not a receipt of the form recovery-receipt/1: its `schema` is {other}", how
        )
    try:
        receipt = parse(ReceiptDocument, document, f"{where} is a damaged receipt")
    except UsageError as error:
        raise UsageError(error.message, how) from error
    if wrong := _odd_time(receipt):
        raise UsageError(f"{where} is a damaged receipt: {wrong}", how)
    return receipt


def _odd_time(receipt: ReceiptDocument) -> str:
    """The first time of a receipt of which no date can be made, in words; empty when there is none."""
    times = {"fault.at": receipt.fault.at, "fault.reverted_at": receipt.fault.reverted_at}
    times |= {f"timeline.{moment}": after for moment, after in vars(receipt.timeline).items()}
    for number, attempt in enumerate(receipt.attempts):
        times[f"attempts[{number}].started_at"] = attempt.started_at
        times[f"attempts[{number}].ended_at"] = attempt.ended_at
    times |= {f"world_size[{number}].at": row.at for number, row in enumerate(receipt.world_size)}
    wrong = (where for where, at in times.items() if at is not None and not abs(at) < MAX_SECONDS)
    return next((f"{where}: not a date" for where in wrong), "")


def _receipts(lab: Lab) -> list[str]:
    """Names of the receipts in the store, the oldest first."""
    prefix = f"{RECEIPTS_PREFIX}/"
    names = [entry.key.removeprefix(prefix) for entry in lab.store.list(prefix)]
    stems = [n.removesuffix(".json") for n in names if n.endswith(".json")]
    matches = [match for name in stems if (match := NAME.fullmatch(name))]
    return [match[0] for match in sorted(matches, key=lambda m: int(m["at"]))]


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return (", ".join(listed[:LISTED]) + more) or "none"


def read_evidence(lab: Lab, subject: Subject) -> ReportEvidence:
    """Everything that a lab knows about the subject. What cannot be learned is named in `missing`.

    Raises LabDownError, StoreError and ClusterError for a job without a receipt: then all comes from the lab.
    """
    return _Reader(lab, subject).read()


class _Reader:
    """Asks one lab about one subject."""

    def __init__(self, lab: Lab, subject: Subject) -> None:
        self._lab, self._subject = lab, subject
        self._missing: list[str] = []

    def read(self) -> ReportEvidence:
        subject, lab = self._subject, self._lab
        try:
            if not lab.status().up:
                return self._down("the lab is down")
            history, events = self._ledger(subject.job)
        except LabError as error:
            if subject.receipt is None:
                raise
            return self._down(error.message)
        if not self._is_ours(history):
            why = f"the receipt is not of lab {lab.name}, whose object store has no ledger of the job"
            return ReportEvidence(subject, missing=(f"{why}: this is the receipt alone",))
        evidence = ReportEvidence(
            subject,
            history=history,
            lab=lab.name,
            runtime=lab.view.kind,
            machine=_machine(events),
        )
        evidence = self._with_control(self._with_cluster(evidence))
        evidence = replace(evidence, faults=self._faults())
        return replace(self._with_settings(evidence), missing=tuple(self._missing))

    def _is_ours(self, history: History | None) -> bool:
        """Tell if the subject is of this lab: in its store, or a file that tells what its ledger tells."""
        receipt = self._subject.receipt
        if receipt is None or self._subject.key:
            return True
        runs = history.runs if history is not None else ()
        run = next((run for run in runs if run.name == receipt.run), None)
        if run is None:
            return False
        begun = {attempt.number: attempt.started_at for attempt in run.attempts}
        pairs = [(begun.get(row.attempt), row.started_at) for row in receipt.attempts]
        apart = [abs(one - other) for one, other in pairs if one is not None and other is not None]
        return max(apart, default=SAME_SECONDS if receipt.attempts else 0.0) < SAME_SECONDS

    def _down(self, why: str) -> ReportEvidence:
        if self._subject.receipt is None:
            raise LabDownError(f"lab {self._lab.name} is not up", "start it with `labctl up`")
        said = f"{why}: curves, control run and versions are missing; this is the receipt alone"
        return ReportEvidence(self._subject, missing=(said,))

    def _ledger(self, job: str) -> tuple[History | None, tuple[Event, ...]]:
        history = self._lab.history(job)
        if not history.runs:
            self._missing.append("this lab's object store has no ledger of the job: curves are missing")
            return None, ()
        return history, tuple(self._lab.ledger(job).events)

    @contextlib.contextmanager
    def _noted(self, problem: str) -> Iterator[None]:
        """Name an error in `missing` instead of raising it."""
        try:
            yield
        except LabError as error:
            self._missing.append(f"{problem}: {error.message}")

    def _faults(self) -> tuple[LoggedFault, ...]:
        with self._noted("the record of faults could not be read"):
            return recorded_faults(self._lab.store, self._subject.job)
        return ()

    def _with_cluster(self, evidence: ReportEvidence) -> ReportEvidence:
        """With the service of each node, and status, entrypoint and recipe of the job."""
        with self._noted("Ray did not answer"):
            nodes = self._lab.api.nodes()
            name = self._subject.job
            jobs = [j for j in self._lab.jobs.list() if name in (j.submission_id, j.metadata.get(RESUMES))]
            jobs.sort(key=lambda job: job.submission_id != name)  # one that died with its head is resumed
            submitted = [{"status": j.status, "entrypoint": j.entrypoint, "recipe": j.recipe} for j in jobs]
            services = {node.node_id: node.service for node in nodes}
            workers = tuple(sorted(filter(is_worker, set(services.values()))))
            evidence = replace(evidence, services=services)
            return replace(evidence, workers=workers, job=submitted[0]) if submitted else evidence
        return evidence

    def _with_control(self, evidence: ReportEvidence) -> ReportEvidence:
        """With the control run that the receipt names, or the newest one of the job."""
        history, known = evidence.history, self._subject.receipt and self._subject.receipt.control
        named, tolerance = (known.submission_id, known.curves.tolerance) if known else ("", 0.0)
        with self._noted("the control run could not be read"):
            newest = control_of(self._lab.jobs.list(), self._subject.job) if not named else None
            job = named or (newest.submission_id if newest else "")
            control = self._lab.history(job) if job else None
            if control is not None and control.runs and history is not None:
                curves = compare_curves(history, control, tolerance)
                return replace(evidence, control_job=job, control=control, curves=curves)
        return evidence

    def _with_settings(self, evidence: ReportEvidence) -> ReportEvidence:
        """With GPUs and settings of the lab, unless it was started anew since the job: then it had others."""
        if not evidence.job:
            self._missing.append(
                "Ray does not know the job: GPUs and settings of the lab belong to another start"
            )
            return evidence
        with self._noted("the lab's settings could not be read"):
            spec = self._lab.view.spec()
            size = f"{spec.workers} workers, each with {spec.cpus_per_worker} logical CPUs"
            changed = ", ".join(f"{k}={v}" for k, v in environment(stock=spec.stock_ray).items())
            settings = (("nodes", size), ("settings of Ray", changed))
            return replace(evidence, gpus=_gpus(spec.gpu), settings=settings)
        return evidence


def _gpus(plan: GpuPlan) -> str:
    if plan.vendor in (Vendor.NONE, Vendor.SIMULATED):
        return "simulated, one logical GPU per worker" if plan.vendor is Vendor.SIMULATED else "none"
    names = dict.fromkeys(assignment.name or plan.vendor.value for assignment in plan.assignments)
    return f"{len(plan.assignments)} × {', '.join(names)}"


def _machine(events: tuple[Event, ...]) -> Mapping[str, object]:
    machines = [said.environment for _, said in of_kind(events, RunStarted)]
    return next((machine for machine in reversed(machines) if machine is not None), {})
