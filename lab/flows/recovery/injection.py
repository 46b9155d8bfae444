"""One fault, from its injection to its revert."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, replace
from math import inf

from lab.api.ledger import FaultFired
from lab.cluster.api import places
from lab.errors import (
    ClusterError,
    EngineError,
    LabError,
    ServiceError,
    SetupError,
    StoreError,
    WaitTimeoutError,
)
from lab.evidence.ledger import of_kind
from lab.evidence.receipt import FaultRecord
from lab.faults import Fault, Scene, Scope, rank_on_target
from lab.faults.records import FaultLog, LoggedFault
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.request import FaultRequest, OnMoment
from lab.flows.recovery.revert import Revert
from lab.flows.recovery.timeline import LiveTimeline
from lab.flows.recovery.trigger import Aim, ended
from lab.flows.recovery.watch import POLL_SECONDS, StoreOutages, Watch, progress_name
from lab.host.clock import settle
from lab.runtime.active_faults import LEFT_DOWN, ActiveFault, ActiveFaults, myself
from lab.services import HEAD
from lab.topology import Progress, State, Struck

SPARE_REPORTS = 2
"""Reports after its epoch until which a fault that acts at one is waited for."""

TOOK_SECONDS = 10.0
"""Deadline for signs that a fault was done all the same, after an error."""

UNSURE = (EngineError, ServiceError, WaitTimeoutError, ClusterError, StoreError, SetupError)
"""Errors of an `inject` after which nobody knows what was done; after others, nothing was."""


class Injection:
    """Injects a fault, follows the recovery, and reverts the fault."""

    def __init__(
        self,
        watch: Watch,
        fault: Fault,
        aim: Aim,
        parameters: Mapping[str, float],
        on_moment: OnMoment,
        request: FaultRequest,
    ) -> None:
        """`parameters` are all that the fault has; of `request` its deadlines count, and `leave_down`."""
        self._watch, self._clock, self._store = watch, watch.clock, watch.lab.store
        self._fault, self._aim, self._request = fault, aim, request
        self.target = aim.target
        """The service."""
        self.at = watch.clock()
        """Time right before the fault was first felt, in seconds since the epoch."""
        self._last = self.at
        """Time right after the last that was done for it: from then on it lasts."""
        self.happened = False
        """True once the fault was done, as far as anybody knows."""
        self.missed: LabError | None = None
        """The error of an injection that did nothing, or perhaps nothing."""
        self.timeline = LiveTimeline(watch, on_moment, aim, self.at)
        self._journal = ActiveFaults(watch.lab.control.folder())
        self._entry = ActiveFault(
            fault.kind.name, self.target, watch.submission_id, self.at, *myself(), parameters,
            source=fault.source,
        )  # fmt: skip
        self._scene = Scene(
            watch.lab.control, self.target, watch.submission_id, parameters,
            node_id=aim.node.node_id if aim.node else "",
            store=self._store,
            queues=watch.lab.queues if fault.kind.scope is Scope.QUEUE else None,
            ranks=aim.ranks,
            checkpoints=aim.checkpoints,
            remember=self._remember,
            on_progress=self._on_progress,
        )  # fmt: skip
        self._revert = Revert(fault, self._scene, self._clock)
        self._steps: deque[Progress] = deque()
        self._disturbed: tuple[str, ...] = ()
        self._log: FaultLog | None = None
        self._ended_with_the_lab = False
        self._store_outages = StoreOutages()
        self._head = watch.node_of(HEAD)

    def run(self, *, to_the_end: bool) -> None:
        """Do it all; `to_the_end` of the job, else only until the fault is reverted.

        Raises RefusedError when another fault lasts on the target, and what `inject` raises when nothing was
        done. What is raised later is in `problems`: there is something to judge then.
        """
        self._journal.refuse_second(self.target)
        self._remember()
        self._watch.store_outages = StoreOutages()
        interrupts = 0
        if notice := self._scene.parameters.get("notice"):
            self.timeline.emit("note notice", None, f"Ray is told that {self.target} ends in {notice:g} s")
        try:
            self._inject()
            if self.missed is None and self._fault.fires:
                self._began(Struck(fired := self._fired(), fired))
            if self.missed is None:
                self.happened = True
                self._record()
                self.timeline.emit("fault", self.at, f"{self._fault.kind.name} {self.target}")
                if not self._request.leave_down:
                    self._follow(to_the_end=to_the_end)
        except LabError as error:
            if not self.happened:
                raise
            self._disturbed = (*self._disturbed, f"the recovery could not be followed: {error.message}")
        except KeyboardInterrupt:
            interrupts = 1
            raise
        finally:
            self._finish(interrupts)
        if self._log is not None and self._log.problem:
            self.timeline.emit("problem fault", None, self._log.problem)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the injection, of what came after it, and of the revert, for a receipt."""
        return (*self._disturbed, *self._revert.problems)

    @property
    def undone(self) -> bool:
        """True once the revert has succeeded."""
        return self._revert.done_at is not None

    def check(self) -> None:
        """Raise the error of the injection, else that of the revert."""
        if self.missed is not None:
            raise self.missed
        self._revert.check()

    def check_bug(self) -> None:
        """Raise the error of the revert if it is no LabError: that is a bug, not a finding."""
        if self._revert.bug is not None:
            raise self._revert.bug

    def record(self) -> FaultRecord:
        """The fault as it was."""
        kind = self._fault.kind
        hit = self._aim.node or (self._watch.node_of(self._aim.ranks[0].service) if self._aim.ranks else None)
        node = hit if kind.scope in (Scope.NODE, Scope.RANK) else None
        if kind.scope is Scope.CLUSTER:
            node = self._head
        return FaultRecord(
            kind=kind.name,
            target=self.target,
            node_id=node.node_id if node else "",
            at=self.at,
            done_at=self._last,
            reverted_at=self._revert.done_at,
            parameters=dict(self._scene.parameters),
            expected=kind.expected,
            traits=kind.traits,
            damaged=tuple(self._scene.memo.get("damaged", ())),
            store_refusals=self._store_outages.refusals,
            slowest_read=self._store_outages.slowest_read,
            pid=rank_on_target(self._scene).pid if kind.scope in (Scope.RANK, Scope.CHECKPOINT) else 0,
            run=self._watch.focus,
        )

    # Injection

    def _inject(self) -> None:
        """Do it. Where that fails, look whether it was done all the same: `missed` says that it was not.

        An interrupt in the middle of it, or a bug, leaves that open, and then it counts as done: what is on
        record too much is seen, what is missing there is not. One that was only armed has done nothing.
        """
        first = self._clock()
        self._began(Struck(first, first))
        try:
            struck = self._fault.inject(self._scene)
            self._began(struck or Struck(first, self._clock()))
        except UNSURE as error:
            refusal = self._ended()
            if self._took():
                self.happened = not self._fault.fires
                said = f"{self.target} is under it although its injection failed: {error.message}"
                self.timeline.emit("note", None, said)
                return
            if refusal is not None:
                raise refusal from error
            self.missed = error
            self._disturbed = (f"the fault could not be injected: {error.message}",)
            self.timeline.emit("note", None, f"{self.target} is restored: {self._disturbed[0]}")
        except LabError as error:
            raise self._ended() or error from error
        except BaseException:
            self.happened = not self._fault.fires
            raise

    def _ended(self) -> LabError | None:
        """Return what to say if the job has ended meanwhile: there was nothing left to break."""
        self._watch.poll()
        job, before = self._watch.job, f"{self._fault.kind.name} could hit it"
        if job is None or not self._watch.over:
            return None
        return ended(self._watch.lab, job, "inject earlier, or train longer", before)

    def _began(self, struck: Struck) -> None:
        """Note when it acted, for the record and for whoever has to undo it."""
        self.at, self._last = struck.first, struck.last
        self.timeline.at = self.at
        noted, self._entry = self._entry, replace(self._entry, at=self.at)
        self._remember()
        if noted.name != self._entry.name:
            self._journal.drop(noted)

    def _took(self) -> bool:
        """True if it was done, as far as the runtime can say; one that does not answer leaves it open."""

        def ask() -> bool | None:
            with contextlib.suppress(LabError):
                return self._fault.took(self._scene)
            return None

        return settle(ask, lambda took: took is True, timeout=TOOK_SECONDS, clock=self._clock) is not False

    def _fired(self) -> float:
        """Wait until the fault that was armed has acted; the time, by the ledger. Raises WaitTimeoutError."""
        patience, why = Patience(self._watch, self._timeout), ""
        for _ in patience.polls():
            self._look()
            fired = [e.at for e, _ in of_kind(self._watch.events, FaultFired) if e.at >= self.at - 1.0]
            if fired:
                return fired[-1]
            why = "the job has ended" if self._watch.over else self._gone_by()
            if why:
                break
        raise WaitTimeoutError(
            f"{self._fault.kind.name} is ready on {self.target}, but has not acted: {why or patience.over}",
            "choose an earlier epoch, a longer training, or a longer --timeout",
        )

    def _gone_by(self) -> str:
        """A sentence once the job has passed the epoch at which the fault was to act; empty before."""
        run, epoch = self._watch.run, self._scene.parameters.get("epoch")
        last = run.last if run else None
        if run is None or last is None or last.progress is None or epoch is None:
            return ""
        late = last.progress > epoch + SPARE_REPORTS * run.stride
        return f"{progress_name(run)} {last.progress:g} has been reported" if late else ""

    # Recovery

    def _follow(self, *, to_the_end: bool) -> None:
        """Emit what happens, begin the revert when its time has come, and return when it is all over.

        That is when the fault is reverted and, with `to_the_end`, the job has ended; or at the deadline, or,
        where none was given, when the job makes no progress.
        """
        revert, timeline, watch = self._revert, self.timeline, self._watch
        patience = Patience(watch, silence=self._timeout)
        while True:
            watch.poll()
            self._look()
            patience.observe()
            now = self._clock()
            if not revert.begun and self._time_to_revert(now - self._last):
                self._store_outages = watch.store_outages
                revert.begin()
            reverted = revert.ended
            if revert.done_at is not None:
                timeline.emit("reverted", revert.done_at, watch.lab.control.undone(self.target))
                self._record(revert.done_at)
            if reverted and watch.job is not None and watch.over:
                watch.read_the_rest(timeline.look)
                timeline.emit(
                    "job_finished", watch.job.ended_at, f"job {watch.submission_id}: {watch.status}"
                )
                return
            if reverted and not to_the_end:
                return
            if not reverted:  # nobody expects the job to get on before
                patience.restart()
            if self._too_late(now, patience):
                return
            revert.wait(POLL_SECONDS)

    def _too_late(self, now: float, patience: Patience) -> bool:
        """True when the wait for the job to go on, or to end, is to be given up."""
        why = patience.over
        if not why and now >= self._last + (self._duration or 0.0) + self._timeout and not self._goes_on():
            why = f"training has not gone on for {self._timeout:g} s"
        if why:
            said = f"{why}: {patience.phase.text}"
            self._disturbed += (f"labctl waited no longer for the job, which was still running: {said}",)
            self.timeline.emit("note patience", now, said)
        return bool(why)

    def _goes_on(self) -> bool:
        """True once training has gone on: in a new attempt, or after the revert in the one that was hit."""
        if self.timeline.emitted & {"first_report", "survivors"}:
            return True
        last = self.timeline.run.last if self.timeline.run else None
        return last is not None and self._revert.done_at is not None and last.at > self._revert.done_at

    def _look(self) -> None:
        self._emit_steps()
        self.timeline.look()

    # Revert

    @property
    def _timeout(self) -> float:
        return inf if self._request.timeout is None else self._request.timeout

    @property
    def _duration(self) -> float | None:
        return self._scene.parameters.get("for")

    def _time_to_revert(self, elapsed: float) -> bool:
        if self._duration is not None:
            return elapsed >= self._duration
        emitted = self.timeline.emitted
        if emitted & {"first_report", "survivors"} or elapsed >= self._fault.patience or self._watch.over:
            return True
        lost = self._fault.kind.scope is Scope.NODE and "node_dead" in emitted
        return lost and not self._rest_can_hold()

    def _rest_can_hold(self) -> bool:
        """True if the other nodes, were they free, could run as many ranks as the run needs at least."""
        run, hit = self.timeline.run, self.timeline.hit
        plan = run.plan if run else None
        ranks = (plan.min_workers if plan else None) or (len(hit.nodes) if hit else 1)
        others = tuple(node for node in self._watch.nodes if node.service != self.target)
        return places(plan.resources_per_worker if plan else {}, others, ranks) >= ranks

    def _finish(self, interrupts: int = 0) -> None:
        """Revert it if that has not been done, and note how that went: for `labctl heal` where it is left.

        `interrupts` have come before: one more leaves it to that.
        """
        try:
            if self.happened and self._request.leave_down:
                self._scene.memo[LEFT_DOWN] = True
            else:
                self._revert.finish(self._emit_interrupt, interrupts)
        finally:
            left = replace(self._entry.given_up, memo=dict(self._scene.memo))
            self._ended_with_the_lab = not (self.undone or left.outlives_the_lab) and self._watch.gone()
            if self.undone or self._ended_with_the_lab:
                self._journal.drop(self._entry)
            else:
                with contextlib.suppress(SetupError):  # it is on disk: healed once this labctl has ended
                    self._journal.keep(left)
            if self.happened:
                self._record(self._revert.done_at, again=True)
            self._emit_steps()

    def emit_left(self) -> None:
        """Emit that the fault is left, if it is."""
        left = f"{self.target} is still under the fault: labctl heal undoes it"
        if not (self.undone or self._ended_with_the_lab or self._request.leave_down):
            self.timeline.emit("problem heal", None, left)

    def _emit_interrupt(self, count: int) -> None:
        """Emit what an interrupt does while the fault is being reverted: the first waits for that."""
        if count > 1:
            self.emit_left()
            return
        doing = f"{self._fault.kind.name} of {self.target} is undone first"
        self.timeline.emit("note interrupt", None, f"{doing}; another interrupt leaves it as it is")

    def _remember(self) -> None:
        """Write the fault to disk, with all it needs to undo itself."""
        self._journal.keep(replace(self._entry, memo=dict(self._scene.memo)))

    def _record(self, reverted_at: float | None = None, *, again: bool = False) -> None:
        """Put it on record that the fault was done, or undone."""
        known = vars(self.record())
        fault = LoggedFault(**{field.name: known[field.name] for field in fields(LoggedFault)})
        if self._log is None:
            self._log = FaultLog(self._store, self._watch.submission_id, fault)
        self._log.fault = fault
        self._log.record(reverted_at, again=again)

    def _on_progress(self, step: Progress) -> None:
        """A step of the revert, in its thread."""
        if step.state is State.STARTING and step.detail:
            self._steps.append(step)

    def _emit_steps(self) -> None:
        while self._steps:
            step, number = self._steps.popleft(), len(self.timeline.emitted)
            self.timeline.emit(f"starting {number}", self._clock(), f"{step.service} is {step.detail}")
