"""One run under one fault: the attempt it hit, those that followed, and the checkpoint to resume from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from math import inf

from lab.api.ledger import CheckpointRefused
from lab.evidence.ledger import (
    CommittedCheckpoint,
    Load,
    Remembered,
    Run,
    RunAttempt,
    began,
    of_kind,
    steps_of,
)  # fmt: skip
from lab.evidence.receipt.expected import HITS_A_NODE, LOSES_A_RANK, Expected
from lab.evidence.receipt.model import Evidence, FaultRecord, NodeRecord, Source
from lab.evidence.receipt.survival import Survival


class Unasked(Enum):
    """The answer where nobody could be asked, by design."""

    SKIPPED = "skipped"


SKIPPED = Unasked.SKIPPED

Answer = tuple[bool | Unasked | None, str]
"""Passed, failed, None for not known, or SKIPPED; and the detail."""

NO_LEDGER = "there is no ledger of what the job did"
NO_TAKEOVER = "no new attempt has started"

WORDS = {"training_iteration": "iteration", "current_epoch": "epoch", "global_step": "step"}


@dataclass(frozen=True)
class Case:
    """The evidence, seen from one run: facts that several questions need. It judges nothing."""

    evidence: Evidence
    run: Run | None
    control: Run | None = None
    """The run of the control job, where there is one to compare with."""

    @cached_property
    def fault(self) -> FaultRecord:
        """The fault, with the outcome that it should have in a training such as this."""
        fault = self.evidence.fault
        if self._survivors_left:
            return replace(fault, expected=Expected.SURVIVED)
        lost = fault.expected in (Expected.NODE_LOST, Expected.RANK_LOST)
        return replace(fault, expected=Expected.REMEMBERED) if lost and self._remembered else fault

    @cached_property
    def _remembered(self) -> bool:
        """True where the attempt that took over went on from a state in a neighbour's memory."""
        current = self.current
        after = (a for a in self.attempts if current and a.number > current.number and a.first)
        new = next((a for a in after if self._began(a) < self.until), None)
        return new is not None and self.remembered(new) is not None

    def remembered(self, attempt: RunAttempt) -> Remembered | None:
        """Return the state from a neighbour's memory that an attempt went on from: one right behind which it
        began; None for one that was given and not taken.

        Where its steps were not counted, its weights tell. Keepers have clocks of their own: one that was
        given at another time counts, unless the attempt began behind its checkpoint.
        """
        if self.run is None or not self.run.given:
            return None
        step, base = began(self.run, attempt), self.newest_for(attempt)
        given = [s for s in self.run.given if step in (None, s.step + 1)]
        if step is None:
            mine = {d for states in attempt.begun.values() for s in states for d in s.own().values()}
            given = [s for s in given if mine <= s.tensors]
        timely = [state for state in given if self.in_time(state, attempt)]
        if timely or step is None or (base is not None and base.progress == step - 1):
            return timely[-1] if timely else None
        return given[-1] if given else None

    @staticmethod
    def in_time(state: Remembered, attempt: RunAttempt) -> bool:
        """Tell whether a state was given while an attempt prepared, by the clock of who gave it."""
        reports = [report.at for mine in attempt.by_rank.values() for report in mine]
        return attempt.started_at is not None and attempt.started_at <= state.at <= min(reports, default=inf)

    @cached_property
    def _survivors_left(self) -> bool:
        """True where ranks that the fault did not hit can go on without those that it did."""
        fault, attempt = self.evidence.fault, self.current
        groups = self.run is not None and self.run.plan is not None and self.run.plan.replica_groups
        if not groups or attempt is None or fault.expected not in LOSES_A_RANK or not fault.node_id:
            return False
        return any(node != fault.node_id for node in attempt.nodes_at(fault.at).values())

    @cached_property
    def survival(self) -> Survival | None:
        """The steps around the fault; None where no survivors could go on."""
        if self.fault.expected is not Expected.SURVIVED or self.run is None or self.current is None:
            return None
        mine = (e for e in self.evidence.events if e.run == self.run.name)
        return Survival(self.current, steps_of(mine), self.fault.node_id, self.fault.at, self.until)

    @property
    def word(self) -> str:
        """The unit of the run's progress: `epoch`, `step`, ..."""
        key = self.run.progress_key if self.run else None
        return WORDS.get(key or "", key or "epoch")

    @cached_property
    def attempts(self) -> tuple[RunAttempt, ...]:
        return self.run.attempts if self.run else ()

    @cached_property
    def until(self) -> float:
        """Time of the next fault of the job, which is to blame for what happens from then on."""
        at = self.evidence.fault.at
        return min((other.at for other in self.evidence.others if other.at > at), default=inf)

    @cached_property
    def overtaken(self) -> bool:
        """True if another fault came after training had gone on from this one, which the job did not outlast.

        It had gone on in the attempt that took over; where none did, in the one that was hit, once the fault
        was over.
        """
        if self.until == inf or self.current is None or self.outlasted is not None:
            return False
        over = self.evidence.fault.reverted_at
        reports = [r.at for a in self.after for r in a.reports if r.trained]
        if not self.after and not self.fault.expected.resumes and over is not None:
            reports = [r.at for r in self.current.reports if r.trained and r.at > over]
        return any(at < self.until for at in reports)

    @property
    def failed_as_it_may(self) -> bool:
        """True if the job failed after a fault after which it may, and not because of a later one."""
        return self.evidence.job_status == "FAILED" and not self.overtaken and self.fault.expected.may_fail

    @cached_property
    def faults_over(self) -> float:
        """Time by which all faults of the job were over."""
        times = (fault.reverted_at for fault in (self.evidence.fault, *self.evidence.others))
        return max(inf if at is None else at for at in times)

    @cached_property
    def outlasted(self) -> RunAttempt | None:
        """The last attempt that trained on once all faults were over: none of them ended the job."""
        return next((a for a in reversed(self.attempts) if self._trained_after(a, self.faults_over)), None)

    def _trained_after(self, attempt: RunAttempt, over: float) -> bool:
        signs = [r.at for reports in attempt.by_rank.values() for r in reports]
        signs += [c.at for c in (self.run.checkpoints if self.run else ()) if c.attempt == attempt.number]
        return any(at > over for at in signs)

    @property
    def may_have_outlasted(self) -> bool:
        """True if an attempt ended after all faults were over, and reports of it are missing."""
        later = (a for a in self.attempts if self.over_at(a) > self.faults_over)
        return any(attempt.lacking(rank) for attempt in later for rank in attempt.nodes)

    @property
    def driver_restarted(self) -> bool:
        """True if the attempt that was hit ended with its controller, and another one went on."""
        hit = self.hit
        return hit is not None and bool(self.after) and self.after[0].controller != hit.controller

    def _mine(self, at: float | None) -> float | None:
        return at if at is not None and at < self.until else None

    @cached_property
    def current(self) -> RunAttempt | None:
        """The attempt that had last started when the fault came."""
        at = self.evidence.fault.at
        started = [a for a in self.attempts if a.started_at is not None and a.started_at <= at]
        return started[-1] if started else None

    @cached_property
    def hit(self) -> RunAttempt | None:
        """The attempt that was running on the fault's node when it came, or in the process that it hit."""
        current = self.current
        anywhere = self.fault.expected not in HITS_A_NODE
        nodes = current.nodes_at(self.fault.at) if current is not None else {}
        on_node = current is not None and (anywhere or self.fault.node_id in nodes.values())
        if current is None or not on_node or self.over_at(current) < self.fault.at:
            return None
        pids = current.pids_at(self.fault.at)
        if self.fault.pid and pids and self.fault.pid not in pids.values():
            return None
        failed, ended = self._mine(current.failure_detected_at), self._mine(current.ended_at)
        return replace(current, failure_detected_at=failed, ended_at=ended)

    def over_at(self, attempt: RunAttempt) -> float:
        """Return the time by which the attempt was over, by any sign of it."""
        after = [a for a in self.attempts if a.number > attempt.number]
        signs = [attempt.failure_detected_at, attempt.ended_at, self.run.finished_at if self.run else None]
        signs += [at for a in after for at in (a.scheduled_at, a.started_at)]
        return min((at for at in signs if at is not None), default=inf)

    @cached_property
    def after(self) -> tuple[RunAttempt, ...]:
        """Every attempt after the one that was hit, but for those after the next fault."""
        hit = self.hit
        later = (a for a in self.attempts if hit and a.number > hit.number)
        return tuple(a for a in later if self.until == inf or self._began(a) < self.until)

    @staticmethod
    def _began(attempt: RunAttempt) -> float:
        times = (attempt.scheduled_at, attempt.started_at)
        return min((at for at in times if at is not None), default=inf)

    @cached_property
    def new(self) -> RunAttempt | None:
        """The attempt that took over: the first that reported progress; while there is none, the latest."""
        asked = [a for a in self.after if not self.void(a)]
        return next((a for a in asked if a.first), asked[-1] if asked else None)

    @cached_property
    def resumed(self) -> tuple[RunAttempt, ...]:
        """Those after the one that was hit that trained: each of them had to resume; `new` in any case."""
        return tuple(a for a in self.after if a is self.new or (self.trained(a) and not self.void(a)))

    def void(self, attempt: RunAttempt) -> bool:
        """True of an attempt that failed while the store was away, before Ray Train took up a report of it,
        and that another one followed.

        Its ranks could not write their ledger, which is in that store, and nothing of it is in what came
        after. So it is asked nothing, whether its ranks have left something or not.
        """
        fault, over = self.fault, self.fault.reverted_at
        if fault.expected is not Expected.STORE_AWAY or over is None or attempt.taken_up != 0:
            return False
        within = fault.at <= self._began(attempt) and self.over_at(attempt) <= min(over, self.until)
        return within and any(a.number > attempt.number and self.trained(a) for a in self.after)

    def trained(self, attempt: RunAttempt) -> bool:
        """True if there is any sign that an attempt trained."""
        saved = self.run is not None and any(c.attempt == attempt.number for c in self.run.checkpoints)
        return bool(attempt.by_rank or attempt.taken_up or attempt.begun or saved)

    @cached_property
    def before_fault(self) -> tuple[CommittedCheckpoint, ...]:
        """The checkpoints from before the fault, with the one of an earlier job that the run began with."""
        earlier = self._stranger(self.attempts[0]) if self.attempts else None
        own = tuple(c for c in self.run.checkpoints if c.at <= self.fault.at) if self.run else ()
        return own if earlier is None or not earlier.job else (earlier, *own)

    def newest_for(self, attempt: RunAttempt) -> CommittedCheckpoint | None:
        """Return the newest intact checkpoint of the attempts before this one, whatever their clocks say.

        Where Ray gave it one of which the ledger knows no commit, it is that: of an earlier job, or the last
        act of a controller that was lost.
        """
        if (stranger := self._stranger(attempt)) is not None:
            return stranger
        times = (attempt.started_at, attempt.scheduled_at, attempt.training_started_at)
        start = next((at for at in times if at is not None), None)
        if self.run is None or start is None:
            return None
        made = (c for c in self.run.checkpoints if c.attempt < attempt.number)
        known = [c for c in made if not self._damaged(c, start)]
        return known[-1] if known else None

    def _stranger(self, attempt: RunAttempt) -> CommittedCheckpoint | None:
        """Return the checkpoint that Ray gave an attempt before its first report, if no attempt had made
        it."""
        made = {c.uri for c in self.run.checkpoints if c.attempt < attempt.number} if self.run else set()
        first = min((mine[0].at for mine in attempt.by_rank.values() if mine), default=inf)
        uris = [r.uri for r in attempt.requests if r.uri and r.uri not in made and r.at <= first]
        known = {c.uri: c for c in self.evidence.earlier}
        # Of one that no earlier job is known to have made, nothing but its name is known.
        unknown = (CommittedCheckpoint(uri, 0.0, 0, None, None, frozenset()) for uri in uris)
        return next((known.get(checkpoint.uri, checkpoint) for checkpoint in unknown), None)

    def _damaged(self, checkpoint: CommittedCheckpoint, at: float) -> bool:
        """Tell whether it was damaged on purpose by then, by this fault or by another one of the same job.

        Putting it back heals it, but not once it was refused: then Ray Train has dropped it for good. One
        that was committed later under the same name is another one.
        """
        return any(
            checkpoint.uri in fault.damaged
            and checkpoint.at <= fault.at <= at
            and (at <= (fault.reverted_at or inf) or self._refused(checkpoint, at))
            for fault in (self.evidence.fault, *self.evidence.others)
        )

    def _refused(self, checkpoint: CommittedCheckpoint, at: float) -> bool:
        return any(
            said.uri == checkpoint.uri and checkpoint.at <= e.at <= at
            for e, said in of_kind(self.evidence.events, CheckpointRefused)
        )

    @cached_property
    def damaged(self) -> frozenset[str]:
        """URIs of the checkpoints that this fault and the others of the job damaged.

        One that was put back may stay for ever: Ray Train no longer counts it among those it keeps.
        """
        return frozenset(uri for fault in (self.fault, *self.evidence.others) for uri in fault.damaged)

    def is_last_of_its_name(self, checkpoint: CommittedCheckpoint) -> bool:
        """True unless another checkpoint was committed under the same name later: the store has that one."""
        made = self.run.checkpoints if self.run else ()
        return next((c for c in reversed(made) if c.uri == checkpoint.uri), checkpoint) is checkpoint

    @cached_property
    def right(self) -> CommittedCheckpoint | None:
        """The checkpoint that the new attempt had to resume from."""
        return self.newest_for(self.new) if self.new else None

    def restores(self, attempt: RunAttempt) -> tuple[Load, ...]:
        """Return each rank's last load of a checkpoint of this run before its first report in the attempt."""
        uris = {c.uri for c in self.run.checkpoints} if self.run else set()
        uris |= {r.uri for r in attempt.requests if r.uri}
        by_rank = {}
        for load in attempt.loads:
            reports = attempt.by_rank.get(load.rank)
            if load.uri in uris and not load.error and (not reports or load.at <= reports[0].at):
                by_rank[load.rank] = load
        return tuple(by_rank[rank] for rank in sorted(by_rank))

    @cached_property
    def restarted(self) -> tuple[RunAttempt, int] | None:
        """The first attempt, and rank of it, that began again where the run had begun, although there was a
        checkpoint."""
        origin = next((a.first.progress for a in self.attempts if a.first), None)
        if self.run is None or origin is None or not self.before_fault:
            return None
        slack = 0 if self.run.progress_repeats else self.run.stride
        for attempt in (a for a in self.after if not self.void(a)):
            base = self.newest_for(attempt)
            if base is None or base.progress is None:
                continue
            for rank in sorted(attempt.by_rank):
                first = attempt.first_of(rank)
                place = None if first is None else first.progress
                if place is not None and place <= origin and place < base.progress + slack:
                    return attempt, rank
        return None

    def node(self, node_id: str) -> NodeRecord | None:
        """Return the node as it was before the next fault."""
        node = next((n for n in self.evidence.nodes if n.node_id == node_id), None)
        later = node is not None and node.ended_at is not None and node.ended_at >= self.until
        return replace(node, alive=True, ended_at=None, reason="") if node and later else node

    def unasked(self, source: Source) -> str:
        """Return why this source could not be asked; empty where it could."""
        return self.evidence.not_asked.get(source, "")

    def service(self, node_id: str) -> str:
        """Return the service that this node is; its id if Ray does not list it."""
        record = self.node(node_id)
        return record.service if record else node_id

    @cached_property
    def rejoined(self) -> NodeRecord | None:
        """The node that the target became when it came back after the fault."""
        mine = [(n.started_at or 0.0, n) for n in self.evidence.nodes if n.service == self.fault.target]
        back = [(at, node) for at, node in mine if self.fault.at < at < self.until]
        return min(back, key=lambda pair: pair[0])[1] if back else None

    def place(self, checkpoint: CommittedCheckpoint) -> str:
        """Return how far a checkpoint had come, such as `epoch 3`."""
        known = checkpoint.progress is not None
        return f"{self.word} {checkpoint.progress}" if known else f"an unknown {self.word}"

    def label(self, checkpoint: CommittedCheckpoint) -> str:
        """Return a checkpoint for a person, such as `checkpoint_3 (epoch 3)`."""
        by = f", of job {checkpoint.job}" if checkpoint.job else ""
        return f"{name(checkpoint.uri)} ({self.place(checkpoint)}{by})"

    def names(self, attempt: RunAttempt) -> str:
        """Return the services that an attempt ran on."""
        ran = (self.service(attempt.nodes[rank]) for rank in sorted(attempt.nodes))
        return " and ".join(dict.fromkeys(ran))


def name(uri: str) -> str:
    """Return the name of the checkpoint at `uri`."""
    return uri.rsplit("/", 1)[-1]
