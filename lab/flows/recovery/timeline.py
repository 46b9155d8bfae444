"""The live timeline: what of the recovery is known so far, told once each, in seconds after the fault."""

from __future__ import annotations

from lab.cluster.api import Node
from lab.evidence.ledger import Run, RunAttempt
from lab.flows.recovery.request import Moment, OnMoment
from lab.flows.recovery.watch import Watch, progress_name, progress_text


class Timeline:
    """Tells what a watch shows of the recovery from one fault."""

    def __init__(
        self,
        watch: Watch,
        on_moment: OnMoment,
        *,
        target: str,
        node: Node | None,
        hit: RunAttempt | None,
        at: float,
    ) -> None:
        """`node` is the target's at the fault, where it is one; `hit` the attempt that trained; `at` when."""
        self._watch, self._on_moment = watch, on_moment
        self._target, self._node, self._hit, self.at = target, node, hit, at
        self._run = watch.run.name if watch.run else ""
        self.told: set[str] = set()

    @property
    def run(self) -> Run | None:
        """The run that was hit, as the ledger has it now (a job may have several)."""
        return next((run for run in reversed(self._watch.history.runs) if run.name == self._run), None)

    def tell(self, key: str, at: float | None, text: str) -> None:
        """Pass a moment on, once; `at` is its time. `progress N` is told once for every N, as `progress`."""
        if key not in self.told:
            self.told.add(key)
            seconds = None if at is None else at - self.at
            self._on_moment(Moment(key.split(" ", 1)[0], seconds, text))

    def look(self) -> None:
        """Tell what the watch's last poll brought."""
        nodes = self._watch.nodes
        for node in nodes:
            if self._node is not None and node.node_id == self._node.node_id and not node.alive:
                self.tell("node_dead", node.ended_at, f"Ray declares the node dead: {node.reason}")
        run = self.run
        if run is not None and self._hit is not None:
            self._attempts(run, self._hit)
            self._progress(run)
        for node in nodes:
            if self._node is None or node.service != self._target:
                continue
            if node.alive and (node.started_at or 0.0) > self.at:
                self.tell("node_rejoined", node.started_at, f"{self._target} is back in the cluster")

    def _attempts(self, run: Run, hit: RunAttempt) -> None:
        services = {node.node_id: node.service for node in self._watch.nodes}
        for attempt in run.attempts:
            if attempt.number == hit.number and attempt.failure_detected_at is not None:
                self.tell("failure_detected", attempt.failure_detected_at, "Ray Train acts on the failure")
            if attempt.number <= hit.number or attempt.started_at is None:
                continue
            where = ", ".join(dict.fromkeys(services.get(n, n[:8]) for n in attempt.nodes.values()))
            self.tell("attempt_started", attempt.started_at, f"attempt {attempt.number} on {where}")
            if attempt.loads:
                load = attempt.loads[0]
                self.tell("restored", load.at, f"read {load.uri.rsplit('/', 1)[-1]}")
            if attempt.reports:
                first = attempt.reports[0]
                known = first.progress is not None
                what = f"reports {progress_name(run)} {first.progress}" if known else "reports again"
                self.tell("first_report", first.at, what)

    def _progress(self, run: Run) -> None:
        last = run.last
        if last is None or last.progress is None or last.at <= self.at or "first_report" not in self.told:
            return
        self.tell(f"progress {last.progress}", last.at, progress_text(run, last.progress))
