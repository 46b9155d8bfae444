"""All that is chosen of a made-up training: its script, its fault, and what the world around it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lab.faults import find_fault

TARGETS = {
    "kill": "ray-worker-0", "rank-kill": "ray-worker-0", "checkpoint-corrupt": "minio", "s3-down": "minio",
    "slow-network": "ray-worker-0", "head-kill": "ray-head", "gpu-sick": "ray-worker-0",
    "clock-skew": "ray-worker-0", "preemption": "queue", "rank-hang": "ray-worker-0",
}  # fmt: skip
"""Fault -> its target."""

SKEW = 0.3
"""Most seconds by which the clock of a node is ahead of labctl's, or behind it."""


@dataclass(frozen=True)
class Script:
    """What a training script does with the checkpoint that it is given."""

    name: str
    loads: str = "newest"
    """`newest`, `older`, `garbage` (other bytes under the newest one's name), or `nothing`; `state`, or
    `older state`, from a neighbour's memory."""
    takes: bool = True
    """It trains with the weights that it has loaded."""
    says: str = "loaded"
    """The progress that it says it has: that of what it has `loaded`, of the `newest` checkpoint, of the
    newest `state`, or none (`anew`)."""
    back: int = 0
    """Epochs that it does again although it has loaded the newest checkpoint."""
    liars: str = "all"
    """Ranks that do so; with `some`, rank 0 is honest and the others are not."""
    asks: bool = True
    """It calls ray.train.get_checkpoint()."""
    shares: bool = False
    """Rank 0 alone loads, and gives its state to the others."""
    compares: bool = True
    """It trains with PyTorch, so that its weights are in the ledger, and the steps of its optimizer."""
    tells: bool = True
    """Every rank says in its metrics how far it is, not only rank 0."""
    keeps: bool = False
    """It counts steps, and neighbours keep its states in memory; one gives back the newest."""
    unseen: bool = False
    """It reads its checkpoint by a client of its own, which nobody sees."""
    own: bool = False
    """Each rank has a state of its own, such as an expert."""
    saves: str = "live"
    """Its files hold the state that it has when it hands them over; or `before`, that of the report
    before; or the
    `oldest` of all."""
    order: str = "right"
    """It puts what it has loaded in its place; or `swapped`, layers in each other's; or `partial`, not all
    of it; or, with `foreign`, what another rank has."""
    resets: bool = False
    """It begins with new weights after its first step."""


HONEST = (
    Script("goes on from its newest checkpoint"),
    Script("and only rank 0 says how far it is", tells=False),
    Script("and rank 0 loads and shares", shares=True),
    Script("and trains without PyTorch", compares=False),
    Script("and finds it by itself", asks=False),
    Script("goes on from a neighbour's state", keeps=True, loads="state"),
    Script("is given a state, and goes on from its checkpoint", keeps=True),
    Script("reads its checkpoint unseen", unseen=True),
    Script("each rank has a state of its own", own=True),
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
    Script("finds an older one by itself", loads="older", asks=False),
    Script("loads garbage", loads="garbage", takes=False, says="newest"),
    Script("loads, and does epochs again", back=3),
    Script("rank 1 begins anew and says so", **NOTHING, says="anew", liars="some"),
    Script("rank 1 opens nothing", **NOTHING, says="newest", liars="some", asks=False),
    Script("rank 1 opens nothing, and says nothing", **NOTHING, liars="some", tells=False),
    Script("rank 1 opens and forgets", takes=False, liars="some"),
    Script("rank 1 loads an older one", loads="older", liars="some"),
    Script("begins anew without PyTorch", **NOTHING, says="newest", compares=False),
    Script("loads an older one without PyTorch", loads="older", says="newest", compares=False),
    Script("saves what it had a report before", saves="before"),
    Script("saves the oldest state it had", saves="oldest"),
    Script("loads layers in another order", order="swapped"),
    Script("loads only a part", order="partial"),
    Script("rank 1 loads only a part", order="partial", liars="some"),
    Script("rank 1 loads the state of rank 0", order="foreign", own=True, liars="some"),
    Script("begins anew after its first step", resets=True),
    Script("reads nothing, says that it goes on", **NOTHING, says="newest", unseen=True),
    Script("reads an older one unseen", loads="older", says="newest", unseen=True),
)
"""Scripts that do not go on from their newest checkpoint; some of them say that they do."""

KEPT_LIARS = (
    Script("is given a state and forgets it", keeps=True, loads="state", takes=False),
    Script("says it was the state, and goes on from its checkpoint", keeps=True, says="state"),
    Script("takes a state that is older than its checkpoint", keeps=True, loads="older state"),
)
"""Scripts that make little of a neighbour's state; right where none is newer than their checkpoint."""


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
    recorded: bool = False
    """It does so of another fault of the lab, that is on record."""
    resized: bool = False
    """It does not fail, but is ended for another number of ranks."""
    then: int = 0
    """Ranks of the attempts after the first one; 0: as many."""
    driver: str = ""
    """It `dies` with the attempt, or `ends` with its failure, and another controller counts from 1 again."""
    unrecorded: int = 0
    """Events that a controller that dies had no time to write."""
    names_by_epoch: bool = False
    """An epoch that is done again overwrites its checkpoint."""
    from_zero: bool = False
    """Epochs are counted from 0."""
    evaluates: bool = False
    """Each attempt evaluates before it trains, and reports that."""
    seeded: bool = True
    """Weights that nobody loaded are those that the first attempt began with."""
    warms: int = 0
    """Steps of an optimizer that each rank makes before it has loaded anything; their work is thrown away."""
    lag: int = 0
    """Reports after which a checkpoint is committed, whose upload goes on meanwhile."""
    beside: bool = False
    """Another run of the job trains beside it, and is not hit."""
    late: bool = False
    """Rank 0 loads once the others have begun to train."""
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
    harmless: float = 0.0
    """Epochs of the last attempt at which a further fault comes that ends nothing; 0: there is none."""
    short: int = 0
    """Epochs that are missing at the end."""
    clocks: tuple[float, ...] = (0.0,) * 4
    """Seconds by which the clocks of both nodes, of the keepers and of a second controller are ahead."""

    @property
    def honest(self) -> bool:
        """True if the script does all that it should."""
        return self.script in HONEST and self.saves_until >= self.epochs

    @property
    def compares(self) -> bool:
        """True if there are states that can be compared: each rank's own, or that of all."""
        then = self.then if self.fails_again or not self.resized else 0
        sizes = {self.ranks, then or self.ranks}
        return self.script.compares and (not self.script.own or len(sizes) == 1)

    @property
    def clear(self) -> bool:
        """True if all evidence is there: weights, what each process wrote last, and who got which checkpoint.

        Of a controller that dies also how long a report takes: one that begins amid an epoch takes less.
        """
        known = self.script.asks and not (self.unwritten or self.unrecorded)
        known = known and not (self.script.own and self.then and 1 in (self.ranks, self.then))
        unpaced = self.script.keeps or self.fault < 2
        return known and not (unpaced and self.ends_driver == "dies")

    @property
    def ends_driver(self) -> str:
        """What becomes of the driver with the attempt."""
        return "dies" if self.kind in ("head-kill", "preemption") else self.driver


def draw(random: Random) -> Tale:
    """A tale of any script and any fault, in any size."""
    script = random.choice(HONEST if random.random() < 0.4 else (*LIARS, *KEPT_LIARS))
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
        recorded=random.random() < 0.3,
        resized=random.random() < 0.2,
        then=random.choice((0, 0, 0, 2, 4 if script.liars == "some" else 1)),
        driver=random.choice(("", "", "", "", "dies", "ends")),
        unrecorded=random.choice((0, 0, 1, 1, 2)),
        names_by_epoch=random.random() < 0.3,
        from_zero=random.random() < 0.2,
        evaluates=random.random() < 0.2,
        seeded=random.random() < 0.5,
        saves_until=random.choice((99, 99, 99, random.randint(1, epochs))),
        unwritten=random.choice((0, 0, 1)),
        fails=random.random() < 0.1,
        harmless=random.choice((0.0, 0.0, 0.0, random.uniform(0.2, 3.0))),
        short=short,
        clocks=tuple(random.choice((0.0, random.uniform(-SKEW, SKEW))) for _ in range(4)),
        lag=0 if script.keeps else random.choice((0, 0, 0, 1, 3)),
        beside=kind in ("kill", "rank-kill", "rank-hang") and random.random() < 0.2,
    )
    if not (script.keeps or tale.evaluates) and random.random() < 0.1:
        tale = replace(tale, warms=random.choice((1, 3, 10)))
    tale = replace(tale, late=not script.shares and random.random() < 0.2)
    if tale.ends_driver == "dies":  # of what its ranks did last, their own clocks alone tell
        tale = replace(tale, clocks=(0.0, 0.0, *tale.clocks[2:]))
    if not tale.fails:
        return tale
    at_once = kind == "head-kill" or random.random() < 0.5  # a driver dies with its head, or outlives it
    return replace(
        tale, at_once=at_once, interrupts=tale.interrupts or at_once, lasts=random.choice((3.0, 60.0))
    )
