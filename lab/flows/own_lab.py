"""A lab of somebody's own beside the class, with workers of the class, which the queues count as hers.

A worker is lent whole: it is stopped in the class, which has it no more, and its GPU and its place in the
machine are those of a worker in her lab. What she has is counted against her quota until her lab has ended:
nobody takes it from a lab that runs, and a preemption passes it over.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from lab.api.queue_requests import JobRequest, Workers
from lab.errors import LabError, NotFoundError, RefusedError, SetupError, WaitTimeoutError
from lab.host.clock import Clock, settle
from lab.host.files import make_private, remove
from lab.host.quantities import plural
from lab.host.secrets import JUPYTER_FILE, RAY_FILE
from lab.host.workspace import NAME as WORKSPACE
from lab.host.workspace import copy, workspace
from lab.lab import Lab
from lab.runtime import leases, lent
from lab.runtime.lent import Loan
from lab.services import worker
from lab.topology import GpuPlan, LabSpec, check_lab_name

ADMIT_SECONDS = 30.0
"""Deadline for the queues to give quota that is free."""

HELD = ("Admitted", "Evicted")
"""Statuses of a workload that holds quota."""


@dataclass(frozen=True)
class OwnLab:
    """A lab of somebody's own that was started, and how she reaches it. URLs are on loopback."""

    person: str
    lab: str
    workers: tuple[str, ...]
    """Services of the class that were lent."""
    address: str
    """Ray's Jobs API."""
    token: str = field(repr=False)
    """Ray's, of this lab alone."""
    jupyter: str = field(repr=False)
    """Includes its token."""

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of this machine that a tunnel has to lead to."""
        return tuple(port for url in (self.address, self.jupyter) if (port := urlsplit(url).port))


class OwnLabs:
    """The labs of their own of the people of one class. Whoever changes them holds the class's lock."""

    def __init__(self, lab: Lab, *, clock: Clock, say: Callable[[str], None]) -> None:
        """`lab` is the class's; `say` gets a line for each wait."""
        self._lab, self._clock, self._say = lab, clock, say
        self._folder = lab.runtime.folder()

    def loans(self) -> Mapping[str, Loan]:
        """Person -> her lab, also one that has ended and whose objects are kept. Raises StateError."""
        return {loan.person: loan for loan in lent.read(self._folder)}

    def states(self) -> dict[str, str]:
        """Person -> her lab, and how it is, in words."""
        loans = self.loans()
        rows = self._lab.queues.list().workloads if loans else ()
        wanted = {row.namespace for row in rows if row.lab and row.status == "Evicted"}
        states = {}
        for name, loan in loans.items():
            up = bool(loan.workers) and self._open(loan.lab).status().up
            how = f"{'up' if up else 'down'}, has {', '.join(loan.workers)}" if loan.workers else "ended"
            states[name] = f"{loan.lab}: {how}{', which the queues want back' if name in wanted else ''}"
        return states

    def lend(self, person: str, workers: int, keep: Callable[[OwnLab], None] = lambda _: None) -> OwnLab:
        """Start a lab with so many workers of the class, or again the one that went down by itself.

        `keep` gets it, with what is known only now; where that raises, the lab has not started.

        Raises RefusedError with nothing changed: no quota or worker or memory is free, she has one, or its
        name is taken. When it does not start everything is as before. Raises what `Lab.up` raises.
        """
        name, kept = f"{self._lab.name}-{person}", self.loans().get(person)
        check_lab_name(name, "her lab would be called")
        hers = self._open(name)
        if kept is None and (hers.runtime.folder().exists() or hers.status().up or hers.runtime.kept()):
            hint = f"nothing was changed; labctl --lab {name} status"
            raise RefusedError(f"there is a lab {name} already, which is not {person}'s", hint)
        if kept is not None and kept.workers:
            if hers.status().up:
                hint = f"labctl class remove {person} --own-lab ends it"
                raise RefusedError(f"{person} has a lab of her own: {name}", hint)
            return self._start(hers, kept, keep)
        _check_memory(workers)
        workload = self._hold(person, name, workers)
        loan = Loan(person, name, (), workload)
        try:
            loan = replace(loan, workers=self._idle(workers))
            for service in loan.workers:
                self._lab.runtime.stop(service)
            self._keep(loan)
            return self._start(hers, loan, keep)
        except BaseException:
            self._take_back(loan, delete=kept is None and bool(loan.workers))
            raise

    def end(self, person: str, *, delete: bool = False) -> str:
        """End somebody's lab and give the class what it had; returns its name, empty where none runs.

        Its objects stay, unless `delete`. Raises what `Lab.down` and `Runtime.start` raise.
        """
        loan = self.loans().get(person)
        if loan is not None and not (loan.workers or delete):
            loan = None
        if loan is not None:
            self._take_back(loan, delete=delete)
        self.settle()
        return "" if loan is None else loan.lab

    def settle(self) -> None:
        """Free the quota of labs that ended with the class, or of which a killed labctl made nothing."""
        kept = {loan.workload for loan in self.loans().values() if loan.workers}
        for row in self._lab.queues.list().workloads:
            if row.lab and row.workload not in kept:
                self._release(row.workload)

    def _open(self, name: str) -> Lab:
        return Lab(self._lab.runtime.kind, name=name)

    def _hold(self, person: str, name: str, workers: int) -> str:
        """Take quota for a lab from her queue. Raises RefusedError where it is not free."""
        spec = self._lab.runtime.spec()
        gpus = 1 if spec.gpu.assignments else 0
        request = JobRequest(
            command=("own", "lab", name),
            name=f"{person}-lab-{secrets.token_hex(3)}",
            queue=f"{person}/default",
            workers=Workers(count=workers, cpus=spec.cpus_per_worker, gpus=gpus),
            owner=person,
            lab=name,
        )
        queues, takes = self._lab.queues, f"{plural(workers, 'worker')} for {name}"
        seen = queues.would_lend(request)
        if seen.status != "Admitted":
            hint = "nothing was changed; `labctl queue` shows who holds what"
            raise RefusedError(
                f"{person}'s queue has no quota for {takes}: {seen.waits or seen.message}", hint
            )
        workload = queues.lend(request)
        row = settle(
            lambda: queues.describe(workload),
            lambda row: row.status in HELD,
            timeout=ADMIT_SECONDS,
            clock=self._clock,
        )
        if row.status not in HELD:
            self._release(workload)
            why = row.waits or row.message or ", ".join(row.away.values())
            raise WaitTimeoutError(f"{takes}: no quota after {ADMIT_SECONDS:g} s: {why}", "try again")
        return workload

    def _idle(self, count: int) -> tuple[str, ...]:
        """Workers of the class on which nothing runs, the last first. Raises RefusedError."""
        from lab.cluster.allocation import holdings, read

        spec, snapshot = self._lab.runtime.spec(), read(self._lab.api)
        if spec.gpu.shared:
            raise RefusedError(
                "workers of this class share a GPU, which nobody can have alone",
                "`labctl down`, then `labctl up --class` without --share-gpu",
            )
        held = {one.service: one.job for one in holdings(snapshot)}
        alive = {node.service for node in snapshot.nodes}
        services = [name for name in reversed(spec.worker_services) if name in alive]
        with_gpu = [name for name in services if spec.gpu.gpu_of(name) or not spec.gpu.assignments]
        idle = [name for name in lent.without(self._folder, with_gpu) if name not in held]
        if len(idle) < count:
            busy = ", ".join(f"{job} on {name}" for name, job in sorted(held.items()) if name in with_gpu)
            message = f"{plural(count, 'worker')} without a job: there is {len(idle)}"
            raise RefusedError(f"{message} ({busy or 'no more are up'})", "wait until these jobs have ended")
        return tuple(idle[:count])

    def _start(self, hers: Lab, loan: Loan, keep: Callable[[OwnLab], None]) -> OwnLab:
        """Start her lab, with tokens that nobody had before and a copy of the workspace of its own."""
        spec = self._lab.runtime.spec()
        for file in (RAY_FILE, JUPYTER_FILE):
            remove(hers.runtime.folder() / "secrets" / file)
        place = hers.runtime.folder() / WORKSPACE
        try:
            make_private(place.parent)
            copy(workspace(), place)
        except OSError as error:
            message = f"{error.filename or place}: {error.strerror}"
            raise SetupError(message, "check its owner and the disk") from error
        self._say(f"starting {loan.lab} with what was {', '.join(loan.workers)}")
        hers.up(
            LabSpec(
                loan.lab,
                _plan(spec.gpu, loan.workers, f"lent by lab {self._lab.name}"),
                len(loan.workers),
                spec.cpus_per_worker,
            )
        )
        at = hers.endpoints()
        started = OwnLab(loan.person, loan.lab, loan.workers, at.dashboard, at.ray_token, at.jupyter)
        try:
            keep(started)
        except BaseException:
            hers.down()
            raise
        return started

    def _take_back(self, loan: Loan, *, delete: bool) -> None:
        """End a lab, and give its workers and its quota back to the class, whatever half-state it is in."""
        self._open(loan.lab).down(volumes=delete)
        ended = replace(loan, workers=(), workload="")
        self._keep(ended, forget=delete or not self._open(loan.lab).runtime.folder().exists())
        runtime = self._lab.runtime
        try:
            plan = runtime.spec().gpu
            mine = tuple(one for one in plan.assignments if one.service in loan.workers)
            with leases.taken(runtime, replace(plan, assignments=mine)):
                pass
        except LabError:  # another lab was quicker: the class is without them, and says so
            self._keep(loan)
            raise
        try:
            for service in loan.workers:
                self._say(f"starting {service} of the class again")
                runtime.start(service)
        finally:
            if loan.workload:
                self._release(loan.workload)

    def _keep(self, loan: Loan, *, forget: bool = False) -> None:
        others = [one for one in lent.read(self._folder) if one.person != loan.person]
        lent.write(self._folder, others if forget else [*others, loan])

    def _release(self, workload: str) -> None:
        with contextlib.suppress(NotFoundError, RefusedError):  # it was released already
            self._lab.queues.release(workload)


def _plan(plan: GpuPlan, workers: Sequence[str], reason: str) -> GpuPlan:
    """The GPUs of these workers of the class as those of the workers of another lab."""
    given = [(worker(number), plan.gpu_of(name)) for number, name in enumerate(workers)]
    mine = tuple(replace(gpu, service=service) for service, gpu in given if gpu is not None)
    return replace(plan, assignments=mine, reason=reason)


def _check_memory(workers: int) -> None:
    """Refuse what this machine has no memory for. Raises RefusedError."""
    from lab.flows.doctor import gather_facts
    from lab.flows.doctor.machine import memory

    check = memory(gather_facts(), workers)
    if check.outcome == "warning":
        raise RefusedError(f"too little memory for another lab: {check.detail}", "nothing was changed")
