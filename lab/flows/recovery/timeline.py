"""Emits each recovery milestone once, with its offset in seconds from the fault."""

from __future__ import annotations

from lab.evidence.ledger import Run, RunAttempt, steps_of
from lab.evidence.receipt.breakdown import stepped_at
from lab.evidence.receipt.survival import Survival
from lab.flows.recovery.request import Moment, OnMoment
from lab.flows.recovery.trigger import Aim
from lab.flows.recovery.watch import Watch, progress_name, progress_text


class LiveTimeline:
    """Emits the milestones of the recovery from one fault, as a watch shows them."""

    def __init__(self, watch: Watch, on_moment: OnMoment, aim: Aim, at: float) -> None:
        """`at` is when the fault came: the attempt that trains now is the one it hits."""
        self._watch, self._on_moment, self._aim, self.at = watch, on_moment, aim, at
        self.hit = watch.attempt
        """The attempt that trained when the fault came."""
        self._run = watch.run.name if watch.run else ""
        self.emitted: set[str] = set()
        """Keys of the moments so far."""

    @property
    def run(self) -> Run | None:
        """The run that was hit, as the ledger has it now (a job may have several)."""
        return next((run for run in reversed(self._watch.history.runs) if run.name == self._run), None)

    def emit(self, key: str, at: float | None, text: str) -> None:
        """Pass a moment on, once; `at` is its time. Each `progress N` is one of its own, as `progress`."""
        if key not in self.emitted:
            self.emitted.add(key)
            seconds = None if at is None else at - self.at
            self._on_moment(Moment(key.split(" ", 1)[0], seconds, text))

    def look(self) -> None:
        """Emit what the last poll of the watch has brought."""
        nodes = self._watch.nodes if self._aim.node is not None else ()
        for node in nodes:
            if self._aim.node and node.node_id == self._aim.node.node_id and not node.alive:
                self.emit("node_dead", node.ended_at, f"Ray declares the node dead: {node.reason}")
        run = self.run
        if run is not None and self.hit is not None:
            self._attempts(run, self.hit)
            self._survivors(run, self.hit)
            self._progress(run)
        for node in nodes:
            if node.service == self._aim.target and node.alive and (node.started_at or 0.0) > self.at:
                self.emit("node_rejoined", node.started_at, f"{self._aim.target} is back in the cluster")

    def _attempts(self, run: Run, hit: RunAttempt) -> None:
        services = {node.node_id: node.service for node in self._watch.nodes}
        for attempt in run.attempts:
            if attempt.number == hit.number and attempt.failure_detected_at is not None:
                self.emit("failure_detected", attempt.failure_detected_at, "Ray Train acts on the failure")
            if attempt.number <= hit.number or attempt.started_at is None:
                continue
            where = ", ".join(dict.fromkeys(services.get(n, n[:8]) for n in attempt.nodes.values()))
            self.emit("attempt_started", attempt.started_at, f"attempt {attempt.number} on {where}")
            if (load := next((mine for mine in attempt.loads if not mine.error), None)) is not None:
                self.emit("restored", load.at, f"read {load.uri.rsplit('/', 1)[-1]}")
            if (stepped := stepped_at(attempt)) is not None:
                self.emit("first_step", stepped, "every rank has taken a step")
            if (first := next((mine for mine in attempt.reports if mine.trained), None)) is not None:
                known = first.progress is not None
                what = f"reports {progress_name(run)} {first.progress}" if known else "reports again"
                self.emit("first_report", first.at, what)

    def _survivors(self, run: Run, hit: RunAttempt) -> None:
        """Tell who goes on without the lost ranks, and who comes back, where the training can do that."""
        if self._aim.node is None or run.plan is None or not run.plan.replica_groups:
            return
        steps = steps_of(e for e in self._watch.events if e.run == run.name)
        newest = next((a for a in run.attempts if a.number == hit.number), hit)
        survival = Survival(newest, steps, self._aim.node.node_id, self.at)
        alone = [
            (at, rank, ranks)
            for rank in survival.nodes
            for at, _, ranks in steps.of(rank)
            if at > self.at and ranks < len(survival.nodes)
        ]
        if alone:
            at, rank, ranks = min(alone)
            self.emit(
                "survivors", at, f"rank {rank} trains on, {ranks} of {len(survival.nodes)} ranks take part"
            )
        for healing in survival.healings:
            source = healing.source.replace("rank", "rank ") or "a neighbour"
            message = (
                f"rank {healing.rank} trains again at step {healing.step + 1}, with the state of {source}"
            )
            self.emit(f"rejoined {healing.rank}", healing.at, message)

    def _progress(self, run: Run) -> None:
        last = run.last
        if last is None or last.progress is None or last.at <= self.at or "first_report" not in self.emitted:
            return
        self.emit(f"progress {last.progress}", last.at, progress_text(run, last.progress))
