"""Trainings that are made up: what happened to them, and the evidence that a lab would have of it.

`live` plays a `Tale` and gives a `Truth`: what happened, and beside it the events that the real recorder
would have written, each by its process and its clock, and counted. `Truth.recovered` and `Truth.went_on` are
the axioms of docs/recovery.md, asked of what happened; the judge sees only the evidence, or a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from lab.evidence.ledger import Event
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord, Preemption, Steering
from lab.faults import Scope, find_fault
from lab.topology import ServiceStatus, State
from tests.fakes.ledger import changed, counted
from tests.unit.data.stories import KEYS, Story, content, files, tensors
from tests.unit.evidence.receipt.tales import HONEST, SKEW, TARGETS, Script, Tale
from tests.unit.evidence.receipt.worlds import Begin, Saved, Truth

ON_A_NODE = ("kill", "rank-kill", "slow-network", "gpu-sick", "clock-skew", "rank-hang")
HEALTHY = tuple(
    ServiceStatus(s, State.HEALTHY) for s in ("ray-head", "ray-worker-0", "ray-worker-1", "minio")
)
EPOCH, COMMIT, EVALUATION, OPEN = 2.0, 0.1, 0.3, 0.01
"""Seconds that an epoch takes, after which its report is taken up and its checkpoint committed, that an
evaluation takes, and that pass while a rank opens a checkpoint."""

STEPS = 10
"""Steps of an optimizer in an epoch."""


def elsewhere(event: Event) -> Event:
    """The same, with its checkpoint in a folder of its own."""
    uri = event.fields.get("uri")
    fields = (
        {**event.fields, "uri": uri.replace("/run/", "/beside/")} if isinstance(uri, str) else event.fields
    )
    return changed(event, fields=fields)


BESIDE = tuple(
    elsewhere(e)
    for e in Story(nodes=(("c",), ("d",)), run="beside", takes_over=False, config={"epochs": 3}).events()
)
"""Another run of the job, on nodes of its own."""


def live(tale: Tale) -> Truth:
    """Play a tale to its end."""
    return _Player(tale).play()


class _Player:
    """Lets a tale happen, and writes down what a recorder would see of it."""

    def __init__(self, tale: Tale) -> None:
        self.tale, self.world = tale, Truth(tale)
        self.clock, self.at, self.began = 0.0, 0.0, 0.0
        self.controller, self.attempt, self.processes = "first", 0, 0
        self.nodes: list[str] = []
        self.commits: list[Saved] = []
        self.damaged: list[Saved] = []
        self.states: list[Saved] = []
        self.others: list[FaultRecord] = []
        self.reached, self.reports, self.fresh = 0, 0, 0
        self.flying: list[Saved] = []  # handed over in this attempt, and not committed
        self.waiting: list[tuple[Saved | None, Any, int]] = []  # reports that are not taken up
        self.taken_up: dict[str, Any] = {}
        self.written: list[Event] = []

    def play(self) -> Truth:
        tale, world = self.tale, self.world
        self._start_controller()
        interrupted = tale.fault + tale.later if tale.interrupts else None
        self._attempt([None] * tale.ranks, interrupted)
        if tale.interrupts and not tale.at_once:
            self._lose_attempt()
            if tale.fails_again:
                self._resume(tale.then or tale.ranks, tale.fails_again)
                self._lose_again()
            self._resume(tale.ranks if tale.resized else tale.then or tale.ranks, None)
        if 0 < tale.harmless < (self.clock - self.began) / EPOCH:
            self._another("s3-slow", "minio", "", self.began + EPOCH * tale.harmless)
        self._end_attempt()
        self._write("run_finished", error="OSError: s3" if tale.fails else None)
        overs = [other.reverted_at or inf for other in self.others]
        world.over = self.at + tale.lasts
        world.until = min((other.at for other in self.others if other.at > self.at), default=inf)
        world.all_over = max(world.over, *overs, 0.0)
        world.evidence = self._evidence()
        return world

    # What happens

    def _start_controller(self) -> None:
        amount = (
            {"steps": self.tale.epochs * STEPS} if self.tale.script.keeps else {"epochs": self.tale.epochs}
        )
        self._write("run_started", attempt=0, config=amount, num_workers=self.tale.ranks)

    def _lose_attempt(self) -> None:
        """The fault has come: the attempt is over, and perhaps its controller with it."""
        tale = self.tale
        if tale.kind == "checkpoint-corrupt" and self.commits:
            self.damaged = self.commits[-1:]
        self.world.flying = len(self.flying)
        for rank in range(tale.ranks):
            self._forget(tale.unwritten, rank)
        self.clock = self.at + EPOCH * tale.later + 0.5
        driver = tale.ends_driver
        if driver == "dies":
            self._forget(tale.unrecorded, None)
        else:
            self._end_attempt(failed="RAISE" if driver else "RETRY")
        if driver == "ends":
            self._write("run_finished", error="WorkerGroupError")
        if driver:
            self.controller, self.attempt = "second", 0
            self._start_controller()

    def _forget(self, count: int, rank: int | None) -> None:
        """The last events of a process are not written."""
        mine = [e for e in self.written if e.rank == rank and e.event != "state_given"]
        for lost in mine[max(0, len(mine) - count) :]:
            self.written.remove(lost)

    def _lose_again(self) -> None:
        """The attempt that took over is over, too."""
        if self.tale.resized:
            self._write("resized", ranks=len(self.nodes), to=self.tale.ranks)
            self._end_attempt()
            return
        if self.tale.recorded:
            self._another("rank-kill", "ray-worker-1", "b", self.clock)
        self._end_attempt(failed="RETRY")

    def _another(self, name: str, target: str, node: str, at: float) -> None:
        kind = find_fault(name).kind
        self.others.append(FaultRecord(name, target, node, at, at + 0.6, {}, kind.expected, kind.traits))

    def _end_attempt(self, *, failed: str = "") -> None:
        self.clock += 0.1
        if failed:
            self._write("failure_detected", decision=failed, **self.taken_up)
        self._write("attempt_ended", **self.taken_up)

    def _resume(self, ranks: int, lasts: float | None) -> None:
        """Another attempt, whose ranks do as their script does; without `lasts` to the end."""
        self.clock += 0.5
        intact = [c for c in self.commits if c not in self.damaged]
        right = intact[-1] if intact else None
        for damaged in self.damaged if not self.world.begins else ():
            self._write("checkpoint_refused", uri=damaged.uri, reason="size", instead=right and right.uri)
        state = self._kept(right)
        begins = [self._begin(rank, right, intact, state) for rank in range(ranks)]
        if not any(other.at < self.clock for other in self.others):
            self.world.again = max(self.world.again, self.reached - begins[0].start)
        self.world.begins += begins
        self._attempt(begins, lasts)

    def _kept(self, right: Saved | None) -> Saved | None:
        """The state that a neighbour gives."""
        script, newest = self.tale.script, right.epoch if right else 0.0
        older = script.loads == "older state"
        states = [s for s in self.states if (s.epoch < newest if older else s.epoch > newest)]
        return states[-1] if script.keeps and states else None

    def _script(self, rank: int) -> Script:
        script = self.tale.script
        return script if script.liars == "all" or rank > 0 else HONEST[0]

    def _begin(self, rank: int, right: Saved | None, intact: list[Saved], state: Saved | None) -> Begin:
        script = self._script(rank)
        older = intact[-2] if len(intact) > 1 else right
        there = {"newest": right, "older": older, "state": state or right, "older state": state or right}
        loaded = there.get(script.loads)
        behind = {"loaded": loaded, "newest": right, "anew": None, "state": state or right}[script.says]
        start = behind.epoch - script.back if behind else 0.0
        kept = state if state is not None and loaded is state else None
        handed = self._weights(state.number if state else right.live if right else 0, rank)
        handed = self._weights(right.live, rank) if right and kept is None else handed
        begun = self._begun(rank, loaded if script.takes else None)
        return Begin(
            self.processes + 1, self.clock, loaded, begun, handed, right, state, max(0.0, start)
        )  # fmt: skip

    def _weights(self, number: int, rank: int) -> dict[str, str]:
        """The weights of a state: key -> digest."""
        digests = tensors(number + rank / 10 if self.tale.script.own and number > 0 else number)
        return dict(zip(KEYS, digests, strict=True))

    def _new(self, rank: int) -> dict[str, str]:
        """Weights that nobody loaded, in an attempt that is about to begin."""
        return self._weights(0 if self.tale.seeded else -10 * (self.processes + 1) - rank, rank)

    def _begun(self, rank: int, loaded: Saved | None) -> dict[str, str]:
        """What a rank goes on with."""
        script, fresh = self._script(rank), self._new(rank)
        if loaded is None or script.resets:
            return fresh
        mine = self._weights(loaded.number, 0 if script.order == "foreign" else rank)
        first, second = KEYS
        if script.order == "swapped":
            return {first: mine[second], second: mine[first]}
        return {first: mine[first], second: fresh[second]} if script.order == "partial" else mine

    def _attempt(self, begins: list[Any], lasts: float | None) -> None:
        """Train on, to the end or until an attempt of `lasts` epochs is lost."""
        tale = self.tale
        self.attempt, self.taken_up, self.reached = self.attempt + 1, {"reports": 0}, 0
        self.reports, self.flying, self.waiting = 0, [], []
        self.fresh = 0 if tale.seeded else -10 * (self.processes + 1)
        self.processes += 1
        back = "a2" if tale.kind == "kill" else "b"
        self.nodes = [*(("a", "b") if self.processes == 1 else ("b", back)), "b", "b"][: len(begins)]
        workers = [
            {"rank": rank, "node_id": node, "pid": 10 * self.processes + rank}
            for rank, node in enumerate(self.nodes)
        ]
        self._write("attempt_scheduled")
        self.clock += 0.2
        self._write("attempt_started", workers=workers)
        for rank in sorted(range(len(begins)), reverse=tale.late):
            self._write("rank_ready", rank)
            self._open(rank, begins[rank])
            self.clock += OPEN
        self.began = self.clock
        if self.processes == 1:
            self.at = self.began + EPOCH * tale.fault
            self._count_before()
        over = inf if lasts is None else self.began + EPOCH * lasts
        start = begins[0].start if begins[0] is not None else 0.0
        ahead = [b.start - start if b is not None else 0.0 for b in begins]
        self._train(start, ahead, over)
        self.clock = over if over < inf else self.clock + COMMIT

    def _train(self, start: float, ahead: list[float], over: float) -> None:
        """Epochs up to the end; what comes after the attempt is lost does not happen."""
        tale = self.tale
        if tale.evaluates and tale.script.compares and (start or not tale.from_zero):
            self._report(start, 0.0, self.began + EVALUATION, ahead, over)
        for epoch in range(int(start) + 1, tale.epochs - tale.short + 1):
            end = self.began + EPOCH * (epoch - start)
            if end - EPOCH / 2 <= over and epoch - 0.5 > start:
                self.states.append(Saved(1000 * self.processes + epoch, epoch - 0.5))
            self._report(epoch, epoch - start, end, ahead, over)

    def _open(self, rank: int, begin: Begin | None) -> None:
        """What a rank asks for, loads, and begins to train with."""
        script, warms = self._script(rank), self.tale.warms
        fresh = self._weights(self.fresh - rank if self.fresh else 0, rank)
        if script.compares and warms:
            self._step(rank, fresh, 0)
            self.clock += OPEN
        if begin is not None:
            newest = begin.right
            if script.asks:
                self._write("get_checkpoint", rank, uri=newest.uri if newest else None)
            if begin.kept is not None and rank == 0:
                step = round(begin.kept.epoch * STEPS)
                given = tensors(begin.kept.number)
                self._write("state_given", attempt=0, step=step, source="b", tensors=given)
            read = newest if script.loads == "garbage" else begin.read
            seen = not (script.unseen or (script.shares and rank > 0))
            if read is not None and read.uri and seen:
                bad = {"model.pt": "0" * 64} if script.loads == "garbage" else content(read.number)
                held = tensors(read.number)
                self._write("checkpoint_loaded", rank, uri=read.uri, files=files(bad), tensors=held)
        if not script.compares:
            return
        right = begin.handed if begin is not None and script.resets and script.takes else None
        state = begin.state if begin is not None else fresh
        if right is not None:
            self._step(rank, right, warms)
            self._step(rank, state, warms + 1)
        elif not (warms and begin is None):
            self._step(rank, state, warms)

    def _step(self, rank: int, weights: Mapping[str, str], steps: int) -> None:
        """A step that does not begin with what the one before it has left."""
        state = {"tensors": dict(weights), "order": [list(KEYS)]}
        self._write("state_begun", rank, optimizer=0, state=state, gradients=True, steps=steps)

    def _report(self, progress: float, trained: float, end: float, ahead: list[float], over: float) -> None:
        """A report of all ranks, `trained` epochs after they began; of one that is trained, a checkpoint."""
        if end > over:
            return
        tale, self.clock, self.reports = self.tale, end, self.reports + 1
        self.world.reports.append((self.processes, end))
        self.world.trained += [(self.processes, end)] if trained else []
        saves = trained > 0 and progress % tale.every == 0
        saves = saves and (self.processes > 1 or progress <= tale.saves_until)
        metrics, live = self._metrics(progress), 1000 * self.processes + int(progress)
        number = len(self.commits) + len(self.flying) + 1
        uri = f"s3://ray/run/checkpoint_{progress if tale.names_by_epoch else 100 + number}"
        saved = Saved(self._saved(live, progress), progress, uri=uri, live=live)
        self.reached = max(self.reached, int(progress) if trained else 0)
        done = round(trained * STEPS) + tale.warms if tale.script.compares else None
        for rank, more in enumerate(ahead):
            reported = self._metrics(progress + more) if tale.script.tells or rank == 0 else {"loss": 0.5}
            if tale.script.compares and trained:
                state = {"tensors": self._weights(live, rank), "order": [list(KEYS)]}
                self._write(
                    "state_handed",
                    rank,
                    state=state,
                    report=self.reports,
                    metrics=reported,
                    handed=saves and rank == 0,
                )
            if saves and rank == 0 and not tale.lag:
                self._save(saved, metrics, self.reports)
            checkpoint = uri if saves and rank == 0 and not tale.lag else None
            self._write(
                "report", rank, metrics=reported, report=self.reports, handed=saves and rank == 0,
                checkpoint=checkpoint, optimizer_steps=done,
            )  # fmt: skip
        self.flying += [saved] if saves else []
        self.waiting.append((saved if saves else None, metrics, self.reports))
        if end + COMMIT > over:
            return
        self.clock = end + COMMIT
        while len(self.waiting) > tale.lag:
            self._take_up(*self.waiting.pop(0))

    def _saved(self, live: int, progress: float) -> int:
        """The state that a checkpoint's files hold."""
        saves = self.tale.script.saves
        if saves == "oldest" and self.commits:
            return self.commits[0].number
        before = 1000 * self.processes + int(progress) - 1
        return before if saves == "before" and self.reports > 1 else live

    def _save(self, saved: Saved, metrics: Any, report: int) -> None:
        there = files(content(saved.number))
        self._write("checkpoint_saved", 0, uri=saved.uri, files=there, metrics=metrics, report=report)

    def _take_up(self, saved: Saved | None, metrics: Any, report: int) -> None:
        """Ray Train takes up a report, whose checkpoint has been uploaded."""
        self.taken_up = {"reports": self.taken_up["reports"] + 1, "metrics": metrics}
        if saved is not None:
            if self.tale.lag:
                self._save(saved, metrics, report)
            self.flying.remove(saved)
            self.commits.append(replace(saved, at=self.clock))
            self._write("checkpoint_committed", uri=saved.uri, metrics=metrics)
            self._count_before()

    def _metrics(self, progress: float) -> dict[str, Any]:
        if self.tale.script.keeps:
            return {"step": round(progress * STEPS)}
        return {"epoch": int(progress) - self.tale.from_zero}

    def _count_before(self) -> None:
        self.world.before = sum(c.at <= self.at for c in self.commits)

    # What is recorded

    def _write(
        self, name: str, rank: int | None = None, *, attempt: int | None = None, **fields: Any
    ) -> None:
        number = self.attempt if attempt is None else attempt
        here = self.nodes[rank] if rank is not None else ""
        self.written.append(
            Event(name, self.clock, "job", "run", number, rank, here, fields, run_id=self.controller)
        )

    def _shown(self) -> tuple[Event, ...]:
        """The events by the clocks of those who wrote them, which drift.

        Nobody knows what came first, a fault or what another clock shows at the same moment: not such tales.
        """
        a, b, keeper, second = self.tale.clocks
        clocks = {"a": a, "a2": a, "b": b, "keeper": keeper, "second": second}
        faults = [(self.at, self.world.over), *((o.at, o.reverted_at or inf) for o in self.others)]
        end = max(e.at for e in self.written)
        shown, told_in_order = [], counted(self.written)
        for event in told_in_order:
            who = "keeper" if event.event == "state_given" else event.node_id or event.run_id
            ahead = clocks.get(who, 0.0) * (0.5 + 0.5 * event.at / end)
            if ahead and any(abs(event.at - edge) <= SKEW for fault in faults for edge in fault):
                return told_in_order
            shown.append(changed(event, at=event.at + ahead) if ahead else event)
        return tuple(shown)

    def _evidence(self) -> Evidence:
        tale, kind = self.tale, find_fault(self.tale.kind).kind
        node = "a" if tale.kind in ON_A_NODE else "h" * (tale.kind == "head-kill")
        fault = FaultRecord(
            tale.kind, TARGETS[tale.kind], node, self.at, self.world.over, {}, kind.expected, kind.traits,
            tuple(c.uri for c in self.damaged), store_refusals=3, slowest_read=9.0,
            pid=10 if kind.scope in (Scope.RANK, Scope.CHECKPOINT) else 0,
        )  # fmt: skip
        return Evidence(
            submission_id="job",
            job_status="FAILED" if tale.fails else "SUCCEEDED",
            job_message="OSError: no answer from s3" if tale.fails else "",
            fault=fault,
            others=tuple(self.others),
            events=(*self._shown(), *(BESIDE if tale.beside else ())),
            nodes=self._nodes(),
            stored={c.uri: content(c.number) for c in self.commits},
            services=HEALTHY,
            preemption=Preemption(
                "bob/x", "red", "blue", "InCohortReclamation", "", self.at + 0.1, self.at + 0.2, self.at + 1.0
            ) if tale.kind == "preemption" else None,
            health=Steering(
                "EVICT", "gpu-0: ecc", self.at + 0.1, self.at + 0.2, None, "node health", self.at + 0.4
            ) if tale.kind in ("gpu-sick", "clock-skew") else None,
        )  # fmt: skip

    def _nodes(self) -> tuple[NodeRecord, ...]:
        killed, new_head = self.tale.kind == "kill", self.tale.kind == "head-kill"
        nodes = [
            NodeRecord("ray-head", "h", not new_head, -10.0, self.at + 0.3 if new_head else None),
            NodeRecord("ray-worker-0", "a", not killed, -5.0, self.at + 0.3 if killed else None),
            NodeRecord("ray-worker-1", "b", True, -4.0),
        ]
        nodes += [NodeRecord("ray-head", "h2", True, self.at + 1.0)] if new_head else []
        return (*nodes, NodeRecord("ray-worker-0", "a2", True, self.at + 1.0)) if killed else tuple(nodes)
