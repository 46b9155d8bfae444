"""What people ask of the queues: new jobs, orders about jobs, other quotas. Done as a whole, or refused."""

from __future__ import annotations

import secrets
from dataclasses import replace

from kueue.model import Workload
from kueue.writing import workload_object
from lab.api.queue import Stop
from lab.api.queue_requests import (
    Accepted,
    ApplyRequest,
    Changed,
    DeleteRequest,
    JobRequest,
    OrderRequest,
    Phase,
)
from lab.daemons.pages import body, printable
from lab.daemons.queue import requests, setup
from lab.daemons.queue.controller import Controller, Draft
from lab.daemons.queue.model import (
    DONE,
    INACTIVE,
    QUEUED,
    STOPPING,
    Record,
    share_ids,
    submission_id,
)
from lab.daemons.queue.views.rows import find
from lab.errors import NotFoundError, RefusedError


class QueueFacade:
    """Requests to a controller, from any thread."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def submit(self, data: bytes) -> Accepted:
        """Take a job in. Raises UsageError, NotFoundError, StateError."""
        asked = body(data, JobRequest)
        with self._controller.change() as draft:
            workload = self._workload(asked, draft.now)
            job = requests.job(asked)
            if not workload.queue and self._controller.queued_only:
                raise RefusedError("this lab takes jobs only through queues", "name one: --queue QUEUE")
            if job.package and not self._controller.packages.has(job.package):
                raise NotFoundError(f"there is no package {job.package}", "send it before its job")
            draft.add(Record(workload.key, job, QUEUED, draft.now), workload_object(workload))
        self._controller.wake.set()
        return Accepted(workload.key, submission_id(workload.name, 1))

    def drafted(self, data: bytes) -> Workload:
        """The workload that a job would be, for a dry run. Raises as `submit`."""
        asked = body(data, JobRequest)
        requests.job(asked)
        with self._controller.lock:
            return self._workload(asked, self._controller.now())

    def _workload(self, asked: JobRequest, now: float) -> Workload:
        controller = self._controller
        if name := asked.name:
            if taken := next((r.key for r in controller.records.values() if share_ids(r.name, name)), ""):
                raise RefusedError(f"the name {name} is taken: there is a job {taken}", "choose another one")
            return requests.workload(asked, name, controller.setup, controller.resource, now)
        while True:
            name = f"job-{secrets.token_hex(5)}"
            workload = requests.workload(asked, name, controller.setup, controller.resource, now)
            if workload.key not in controller.records:
                return workload

    def order(self, key: str, verb: str, data: bytes) -> Phase:
        """Cancel, deactivate or activate a job. Raises NotFoundError, RefusedError, UsageError."""
        message = printable(body(data, OrderRequest).message)
        with self._controller.change() as draft:
            record, _ = find(self._controller, key)
            if record.phase == DONE:
                raise RefusedError(f"job {record.key} has ended already")
            if verb == "cancel":
                cancel(draft, record, "Cancelled", message or "The job was cancelled")
            else:
                self._activate(draft, record, active=verb == "activate")
        self._controller.wake.set()
        return Phase(record.key, self._controller.records[record.key].phase)

    def _activate(self, draft: Draft, record: Record, *, active: bool) -> None:
        item = self._controller.engine.items[record.key]
        if record.stop is not None and record.stop.to == DONE:
            raise RefusedError(f"job {record.key} is being stopped for good")
        if item.active == active:
            raise RefusedError(f"job {record.key} is {'not on hold' if active else 'on hold already'}")
        draft.note(draft.engine.set_active(record.key, active, draft.now), record.key)

    def apply(self, data: bytes) -> Changed:
        """Make or change objects. Raises BadObjectsError, UsageError."""
        asked = body(data, ApplyRequest)
        files = [(file.name, file.text) for file in asked.files]
        with self._controller.change() as draft:
            applied = setup.apply(self._controller.setup, files, asked.namespace, self._controller.capacity)
            if not asked.dry_run and any(change != "unchanged" for change in applied.changes.values()):
                draft.apply(applied.setup)
        self._controller.wake.set()
        return applied.document()

    def delete(self, data: bytes) -> Changed:
        """Delete objects. Raises NotFoundError, RefusedError, UsageError."""
        keys = setup.keys_in(body(data, DeleteRequest))
        with self._controller.change() as draft:
            applied = setup.delete(self._controller.setup, keys, self._controller.engine)
            draft.apply(applied.setup)
        self._controller.wake.set()
        return applied.document()


def cancel(draft: Draft, record: Record, reason: str, message: str) -> None:
    """End a job for good: at once where it only waits, else once Ray's job is over."""
    if record.phase in (QUEUED, INACTIVE):
        draft.finish(record.key, "Failed", message)
    elif record.stop is None or record.stop.to != DONE:
        stop = Stop(DONE, reason, message, draft.now, outcome="Failed")
        draft.put(replace(record, phase=STOPPING, stop=stop))
