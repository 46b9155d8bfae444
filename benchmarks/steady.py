"""Time of a step while nobody is lost: with torchft, and with plain DDP."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.compare import Figures, LostError, Measure, Row, by_turns, costs, rows
from benchmarks.measure import own_lab, say, stop_jobs, succeed
from lab.evidence.ledger import Steps, steps_of
from lab.flows.ladder import Rung, submit
from lab.lab import Lab

OURS, PEER = "torchft", "plain DDP"
WAYS = {OURS: "torchft", PEER: "checkpoint"}

TRAININGS = {16: 40, 128: 160, 512: 400}
"""Images of one rank in a step (16 is the recipe's default) -> epochs: 1,760 steps, 800 and 400."""

WARM_UP = 0.2
"""Share of the steps at the beginning that do not count."""

REST_SECONDS = 3.0
JOB_SECONDS = 900.0


def run(runs: int) -> list[Row]:
    """Measure both ways in turn, on two ranks, and the cost in percent pair by pair."""
    with own_lab("bench-steady") as lab:
        steps = {
            str(images): {side: _training(lab, way, images) for side, way in WAYS.items()}
            for images in TRAININGS
        }
        found = by_turns(steps, runs, say, lambda _: stop_jobs(lab))
    measured = rows(found, OURS, [PEER], "ms")
    return [row for each in measured for row in (each, cost(each))]


def cost(row: Row) -> Row:
    """Return by how many percent our side takes longer, pair by pair."""
    return Row(f"cost, {row.what}", costs(row.pairs), unit="%")


def _training(lab: Lab, way: str, images: int) -> Measure:
    def measure() -> Figures:
        time.sleep(REST_SECONDS)
        settings = {"batch-size": str(images), "epochs": str(TRAININGS[images]), "save-every": "1000"}
        job = submit(lab, Rung(way, "", way=way, settings=settings))
        succeed(lab, job, JOB_SECONDS)
        lab.history(job)
        yield f"step of {images} images a rank", milliseconds(steps_of(lab.ledger(job).events))

    return measure


def milliseconds(steps: Steps) -> float:
    """Return the mean time of a step of the first rank. Raises LostError without enough steps."""
    times: Sequence[float] = [at for at, _, _ in steps.of(0)]
    times = times[int(len(times) * WARM_UP) :]
    if len(times) < 2:
        raise LostError("the ledger has no steps")
    return 1000 * (times[-1] - times[0]) / (len(times) - 1)
