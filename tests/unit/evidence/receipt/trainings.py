"""Trainings that are made up: what happened to them, and the evidence that a lab would have of it.

A `Tale` chooses ranks, attempts, checkpoints, a fault, and a script that is honest, forgetful or lying.
`live` plays it and gives a `World`: what happened, and beside it the events that the real recorder would have
written, each by its process and counted. `World.recovered` and `World.went_on` are the axioms of
docs/recovery.md, asked of what happened; the judge sees only the evidence, or a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lab.evidence.ledger import Event
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord, Preemption, Steering
from lab.faults import find_fault
from lab.topology import ServiceStatus, State
from tests.fakes.ledger import counted
from tests.unit.data.stories import content, event, files, tensors

TARGETS = {
    "kill": "ray-worker-0", "rank-kill": "ray-worker-0", "checkpoint-corrupt": "minio", "s3-down": "minio",
    "slow-network": "ray-worker-0", "head-kill": "ray-head", "gpu-sick": "ray-worker-0",
    "clock-skew": "ray-worker-0", "preemption": "queue", "rank-hang": "ray-worker-0",
}  # fmt: skip
"""Fault -> its target."""

ON_A_NODE = ("kill", "rank-kill", "slow-network", "gpu-sick", "clock-skew", "rank-hang")
HEALTHY = tuple(
    ServiceStatus(s, State.HEALTHY) for s in ("ray-head", "ray-worker-0", "ray-worker-1", "minio")
)
EPOCH, COMMIT = 2.0, 0.1
"""Seconds that an epoch takes, and after which its report is taken up and its checkpoint committed."""


@dataclass(frozen=True)
class Script:
    """What a training script does with the checkpoint that it is given."""

    name: str
    loads: str = "newest"
    """`newest`, `older`, `garbage` (other bytes under the newest one's name), or `nothing`."""
    takes: bool = True
    """It trains with the weights that it has loaded."""
    says: str = "loaded"
    """The epoch that it reports first: that after what it has `loaded`, after the `newest`, or the first one
    (`anew`)."""
    back: int = 0
    """Epochs that it does again although it has loaded the newest checkpoint."""
    liars: str = "all"
    """Ranks that do so; with `some`, rank 0 is honest and the others are not."""
    asks: bool = True
    """It calls ray.train.get_checkpoint()."""
    shares: bool = False
    """Rank 0 alone loads, and gives its state to the others."""
    compares: bool = True
    """It trains with PyTorch, so that its weights are in the ledger."""
    tells: bool = True
    """Every rank says in its metrics how far it is, not only rank 0."""


HONEST = (
    Script("goes on from its newest checkpoint"),
    Script("and only rank 0 says how far it is", tells=False),
    Script("and rank 0 loads and shares", shares=True),
    Script("and trains without PyTorch", compares=False),
)
NOTHING: dict[str, Any] = {"loads": "nothing", "takes": False}
LIARS = (
    Script("begins anew and says so", **NOTHING, says="anew", asks=False),
    Script("begins anew, says that it goes on", **NOTHING, says="newest", asks=False),
    Script("asks, opens nothing, says that it goes on", **NOTHING, says="newest"),
    Script("opens and forgets", takes=False),
    Script("opens and begins anew", takes=False, says="anew"),
    Script("loads an older one", loads="older"),
    Script("loads an older one, says it was the newest", loads="older", says="newest"),
    Script("loads garbage", loads="garbage", takes=False, says="newest"),
    Script("loads, and does epochs again", back=3),
    Script("rank 1 begins anew and says so", **NOTHING, says="anew", liars="some"),
    Script("rank 1 opens nothing", **NOTHING, says="newest", liars="some", asks=False),
    Script("rank 1 opens nothing, and says nothing", **NOTHING, liars="some", tells=False),
    Script("rank 1 opens and forgets", takes=False, liars="some"),
    Script("rank 1 loads an older one", loads="older", liars="some"),
    Script("begins anew without PyTorch", **NOTHING, says="newest", compares=False),
    Script("loads an older one without PyTorch", loads="older", says="newest", compares=False),
)
"""Scripts that do not go on from their newest checkpoint; some of them say that they do."""


@dataclass(frozen=True)
class Tale:
    """All that is chosen of a training and its fault. Times are in epochs of an attempt."""

    script: Script = HONEST[0]
    kind: str = "kill"
    ranks: int = 1
    epochs: int = 8
    every: int = 1
    """A checkpoint with every so many epochs."""
    fault: float = 3.4
    interrupts: bool = True
    """The fault ends the attempt; those of the store, say, may not."""
    fails_again: float = 0.0
    """The next attempt fails after so long, too; 0: it does not."""
    driver_restarts: bool = False
    """Another controller goes on, which counts its attempts from 1 again."""
    names_by_epoch: bool = False
    """An epoch that is done again overwrites its checkpoint."""
    seeded: bool = True
    """Weights that nobody loaded are those that the first attempt began with."""
    saves_until: int = 99
    """The last epoch that is saved before the fault: then the script forgets to."""
    unwritten: int = 0
    """Events that each rank of an attempt that is lost had no time to write."""
    fails: bool = False
    """The job fails in the end, with an error that names the store."""
    at_once: bool = False
    """It fails of the fault, in the attempt that was hit."""
    lasts: float = 3.0
    """Seconds until the fault is over."""
    later: float = 0.0
    """Epochs after the fault at which the attempt that was hit fails; of itself, once that is over."""
    short: int = 0
    """Epochs that are missing at the end."""

    @property
    def honest(self) -> bool:
        """True if the script does all that it should."""
        return self.script in HONEST and self.saves_until >= self.epochs


@dataclass(frozen=True)
class Commit:
    """A checkpoint that Ray Train committed, and what is in it."""

    number: int
    epoch: int
    at: float
    uri: str


@dataclass(frozen=True)
class Begin:
    """How a rank of an attempt after the first one really began."""

    read: Commit | None
    """What it loaded, or was given by the rank that did."""
    took: Commit | None
    """What its weights are of."""
    right: Commit | None
    """The newest intact checkpoint that was committed then."""
    says: int
    """The epoch that it reports first."""


@dataclass
class World:
    """What happened, and the evidence of it."""

    tale: Tale
    begins: list[Begin] = field(default_factory=list)
    before: int = 0
    """Checkpoints committed before the fault."""
    again: int = 0
    """Epochs done twice because of the fault, of those that Ray Train had taken up."""
    outlasted: bool = False
    """The last attempt reported when the fault was over."""
    undisturbed: bool = False
    """The one that was hit did, and then failed of something else."""
    evidence: Evidence | None = None

    def recovered(self) -> bool:
        """The axioms of `recovered`. Weights that cannot be compared are not claimed to be right."""
        ended = not self.tale.fails and not self.tale.short
        return bool(self.begins) and self.before > 0 and self._resumed() and ended and not self.undisturbed

    def _resumed(self) -> bool:
        """Every rank of every attempt after the first one went on from its newest checkpoint."""
        compares = self.tale.script.compares
        began_right = (
            b.right is not None
            and b.read == b.right
            and (b.took == b.right or not compares)
            and b.says == b.right.epoch + 1
            for b in self.begins
        )
        interval = self.tale.every * (2 if self.tale.kind == "checkpoint-corrupt" else 1)
        return all(began_right) and self.again <= interval

    def went_on(self) -> bool:
        """The axioms of `as-expected` after a fault that may leave a training alone, or end its job."""
        expected = find_fault(self.tale.kind).kind.expected
        if expected.resumes or not self.before:
            return False
        if self.tale.fails:
            return expected.may_fail and not self.outlasted and self._resumed()
        return not self.tale.interrupts and not self.tale.short


def draw(random: Random) -> Tale:
    """A tale of any script and any fault, in any size."""
    script = random.choice(HONEST if random.random() < 0.4 else LIARS)
    several = script.liars == "some" or random.random() < 0.6
    kind, epochs = random.choice(tuple(TARGETS)), random.randint(6, 12)
    short = int(random.random() < 0.08)
    tale = Tale(
        script=script,
        kind=kind,
        ranks=random.choice((2, 3)) if several else 1,
        epochs=epochs,
        every=random.choice((1, 1, 2, 3)),
        fault=random.uniform(0.2, epochs - short - 0.3),
        interrupts=find_fault(kind).kind.expected.resumes or random.random() < 0.7,
        fails_again=random.choice((0.0, 0.0, random.uniform(0.2, 3.0))),
        driver_restarts=random.random() < 0.2,
        names_by_epoch=random.random() < 0.3,
        seeded=random.random() < 0.5,
        saves_until=random.choice((99, 99, 99, random.randint(1, epochs))),
        unwritten=random.choice((0, 0, 1)),
        fails=random.random() < 0.05,
        short=short,
    )
    if not tale.fails:
        return tale
    at_once = kind == "head-kill" or random.random() < 0.5  # a driver dies with its head, or outlives it
    return replace(
        tale, at_once=at_once, interrupts=tale.interrupts or at_once, lasts=random.choice((3.0, 60.0))
    )


def live(tale: Tale) -> World:
    """Play a tale to its end."""
    return _Player(tale).play()


class _Player:
    """Lets a tale happen, and writes down what a recorder would see of it."""

    def __init__(self, tale: Tale) -> None:
        self.tale, self.world = tale, World(tale)
        self.clock, self.at = 0.0, 0.0
        self.controller, self.attempt, self.processes = "first", 0, 0
        self.commits: list[Commit] = []
        self.damaged: list[Commit] = []
        self.taken_up: dict[str, Any] = {}
        self.written: list[Event] = []

    def play(self) -> World:
        tale = self.tale
        self._start_controller()
        self._attempt(1, [None] * tale.ranks, tale.fault + tale.later if tale.interrupts else None)
        self.world.undisturbed = tale.interrupts and self.world.outlasted
        if tale.interrupts and not tale.at_once:
            reached = int(self.taken_up.get("metrics", {}).get("epoch", 0))
            self._lose_attempt()
            if tale.fails_again:
                self._resume(tale.fails_again)
                self._end_attempt(failed=True)
            self._resume(None)
            first = self.world.begins[0]
            self.world.again = max(0, reached - first.says + 1)
        self._end_attempt()
        self._write("run_finished", error="OSError: s3" if tale.fails else None)
        self.world.evidence = self._evidence()
        return self.world

    # What happens

    def _start_controller(self) -> None:
        plan = {"epochs": self.tale.epochs}
        self._write("run_started", attempt=0, config=plan, num_workers=self.tale.ranks)

    def _lose_attempt(self) -> None:
        """The fault has come: the attempt is over, and perhaps its controller with it."""
        tale = self.tale
        if tale.kind == "checkpoint-corrupt" and self.commits:
            self.damaged = self.commits[-1:]
        for rank in range(tale.ranks):
            mine = [e for e in self.written if e.rank == rank]
            for lost in mine[len(mine) - tale.unwritten :]:
                self.written.remove(lost)
        self.clock = self.at + EPOCH * tale.later + 0.5
        if tale.driver_restarts or tale.kind in ("head-kill", "preemption"):
            self.controller, self.attempt = "second", 0
            self._start_controller()
        else:
            self._end_attempt(failed=True)

    def _end_attempt(self, *, failed: bool = False) -> None:
        self.clock += 0.1
        if failed:
            self._write("failure_detected", decision="RETRY", **self.taken_up)
        self._write("attempt_ended", **self.taken_up)

    def _resume(self, lasts: float | None) -> None:
        """Another attempt, whose ranks do as their script does; without `lasts` to the end."""
        tale, self.clock = self.tale, self.clock + 0.5
        intact = [c for c in self.commits if c not in self.damaged]
        right = intact[-1] if intact else None
        for damaged in self.damaged if not self.world.begins else ():
            self._write("checkpoint_refused", uri=damaged.uri, reason="size", instead=right and right.uri)
        begins = [self._begin(rank, right, intact) for rank in range(tale.ranks)]
        self.world.begins += begins
        self._attempt(begins[0].says, begins, lasts)

    def _script(self, rank: int) -> Script:
        script = self.tale.script
        return script if script.liars == "all" or rank > 0 else HONEST[0]

    def _begin(self, rank: int, right: Commit | None, intact: list[Commit]) -> Begin:
        script, loaded = self._script(rank), right
        if script.loads == "older":
            loaded = intact[-2] if len(intact) > 1 else right
        elif script.loads != "newest":
            loaded = None
        behind = {"loaded": loaded, "newest": right, "anew": None}[script.says]
        says = (behind.epoch if behind else 0) + 1 - script.back * bool(behind)
        return Begin(loaded, loaded if script.takes else None, right, max(1, says))

    def _attempt(self, says: int, begins: list[Any], lasts: float | None) -> None:
        """Train from epoch `says` on, to the end or until an attempt of `lasts` epochs is lost."""
        tale = self.tale
        self.attempt, self.taken_up, self.world.outlasted = self.attempt + 1, {"reports": 0}, False
        self.processes += 1
        nodes = ["a", "b", "b"] if self.processes == 1 else ["b", "a2" if tale.kind == "kill" else "b", "b"]
        workers = [
            {"rank": rank, "node_id": nodes[rank], "pid": 10 * self.processes + rank}
            for rank in range(tale.ranks)
        ]
        self._write("attempt_scheduled")
        self.clock += 0.2
        self._write("attempt_started", workers=workers)
        for rank, begin in enumerate(begins):
            self._write("rank_ready", rank)
            self._open(rank, begin)
        began = self.clock
        if self.processes == 1:
            self.at = began + EPOCH * tale.fault
            self._count_before()
        over = None if lasts is None else began + EPOCH * lasts
        for done, epoch in enumerate(range(says, tale.epochs - tale.short + 1), 1):
            end = began + EPOCH * done
            if over is not None and end > over:
                break
            self._epoch(epoch, end, begins, over)
        self.clock = over if over is not None else self.clock + COMMIT

    def _open(self, rank: int, begin: Begin | None) -> None:
        """What a rank asks for, loads, and begins to train with."""
        script = self._script(rank)
        if begin is not None:
            newest = begin.right
            if script.asks:
                self._write("get_checkpoint", rank, uri=newest.uri if newest else None)
            given = newest if script.loads == "garbage" else begin.read
            if given is not None and not (script.shares and rank > 0):
                bad = {"model.pt": "0" * 64} if script.loads == "garbage" else content(given.number)
                held = tensors(given.number)
                self._write("checkpoint_loaded", rank, uri=given.uri, files=files(bad), tensors=held)
        if script.compares:
            fresh = 0 if self.tale.seeded else -10 * self.processes - rank
            took = begin.took if begin is not None else None
            self._write("weights", rank, tensors=tensors(took.number if took else fresh))

    def _epoch(self, epoch: int, end: float, begins: list[Any], over: float | None) -> None:
        """One epoch of all ranks; what comes after the attempt is lost does not happen."""
        tale, self.clock = self.tale, end
        self.world.outlasted = end > self.at + tale.lasts
        metrics = {"epoch": epoch}
        saves = epoch % tale.every == 0 and (self.processes > 1 or epoch <= tale.saves_until)
        number = len(self.commits) + 1
        uri = f"s3://ray/run/checkpoint_{epoch if tale.names_by_epoch else 100 + number}"
        if saves:
            self._write("checkpoint_saved", 0, uri=uri, files=files(content(number)), metrics=metrics)
        for rank in range(tale.ranks):
            ahead = begins[rank].says - begins[0].says if begins[rank] is not None else 0
            told = {"epoch": epoch + ahead} if tale.script.tells or rank == 0 else {"loss": 0.5}
            self._write("report", rank, metrics=told, checkpoint=uri if saves and rank == 0 else None)
        if over is not None and end + COMMIT > over:
            return
        self.clock = end + COMMIT
        self.taken_up = {"reports": self.taken_up["reports"] + 1, "metrics": metrics}
        if saves:
            self.commits.append(Commit(number, epoch, self.clock, uri))
            self._write("checkpoint_committed", uri=uri, metrics=metrics)
            self._count_before()

    def _count_before(self) -> None:
        self.world.before = sum(c.at <= self.at for c in self.commits)

    # What is recorded

    def _write(
        self, name: str, rank: int | None = None, *, attempt: int | None = None, **fields: Any
    ) -> None:
        number = self.attempt if attempt is None else attempt
        told = event(name, self.clock, number, rank, **fields)
        self.written.append(replace(told, run_id=self.controller))

    def _evidence(self) -> Evidence:
        tale, kind = self.tale, find_fault(self.tale.kind).kind
        reverted = self.at + tale.lasts
        node = "a" if tale.kind in ON_A_NODE else "h" * (tale.kind == "head-kill")
        fault = FaultRecord(
            tale.kind, TARGETS[tale.kind], node, self.at, reverted, {}, kind.expected, kind.traits,
            tuple(c.uri for c in self.damaged), store_refusals=3, slowest_read=9.0,
        )  # fmt: skip
        return Evidence(
            submission_id="job",
            job_status="FAILED" if tale.fails else "SUCCEEDED",
            job_message="OSError: no answer from s3" if tale.fails else "",
            fault=fault,
            events=counted(self.written),
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
