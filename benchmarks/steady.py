"""Time of a step while nobody is lost: with torchft, states in a neighbour's memory, plain, and stock Ray."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.compare import Figures, Found, LostError, Measure, Row, by_turns, costs, rows
from benchmarks.measure import own_lab, say, stop_jobs, succeed
from lab.evidence.ledger import RecordedSteps, steps_of
from lab.flows.ladder import submit_counted
from lab.lab import Lab

WAYS, PEER, STOCK = ("torchft", "memory"), "plain DDP", "stock Ray"
"""Ways that are compared, where the recipe has them, what with, and what that is compared with."""


@dataclass(frozen=True)
class Training:
    """What is trained in each way, on two ranks."""

    what: str
    recipe: str
    settings: Mapping[str, str]
    ways: Sequence[str]
    """Those of WAYS that the recipe has."""
    plain: str
    """The recipe's own way."""


def _digits(images: int, epochs: int) -> Training:
    settings = {"batch-size": str(images), "epochs": str(epochs), "save-every": "1000"}
    return Training(f"step of {images} images a rank", "digits", settings, WAYS, "checkpoint")


TRAININGS = (
    _digits(16, 40),  # the recipe's default; 1,760 steps
    _digits(128, 160),  # 800 steps
    _digits(512, 400),  # 400 steps
    Training(
        "step of a language model (0.8m, the recipe's default)",
        "llm",
        {"steps": "120", "megabytes": "1", "checkpoint-every": "1000", "evaluate-every": "1000"},
        ("torchft",),
        "",
    ),
)

WARM_UP = 0.2
"""Share of the steps at the beginning that do not count."""

RANKS = 2
REST_SECONDS = 3.0
JOB_SECONDS = 900.0


def run(runs: int) -> tuple[list[Row], Found]:
    """Measure every way in turn, on two ranks, and the cost in percent pair by pair."""
    with own_lab("bench-steady") as lab, own_lab("bench-steady-stock", stock_ray=True) as stock:
        steps = {
            training.what: {
                **{way: _training(lab, training, way) for way in training.ways},
                PEER: _training(lab, training, training.plain),
                STOCK: _training(stock, training, training.plain),
            }
            for training in TRAININGS
        }
        turns = by_turns(steps, runs, say, lambda side: stop_jobs(stock if side == STOCK else lab))
    compared = [*((way, PEER) for way in WAYS), (PEER, STOCK)]
    measured = [(way, row) for way, peer in compared for row in rows(turns, way, [peer], "ms")]
    return [shown for way, row in measured for shown in costed(way, row)], turns


def costed(way: str, row: Row) -> list[Row]:
    """Return a row of this way by its name, and one with the cost; none where it was not measured."""
    named = replace(row, what=f"{row.what}, {way}")
    return [named, cost(named)] if row.values else []


def cost(row: Row) -> Row:
    """Return by how many percent our side takes longer, pair by pair."""
    return Row(f"cost, {row.what}", costs(row.pairs), unit="%")


def _training(lab: Lab, training: Training, way: str) -> Measure:
    def measure() -> Figures:
        time.sleep(REST_SECONDS)
        settings = {"workers": str(RANKS), **training.settings}
        job = submit_counted(lab, training.recipe, way, settings, {})
        succeed(lab, job, JOB_SECONDS)
        lab.history(job)
        yield training.what, milliseconds(steps_of(lab.ledger(job).events))

    return measure


def milliseconds(steps: RecordedSteps) -> float:
    """Return the mean time of a step of the first rank. Raises LostError without enough steps."""
    times: Sequence[float] = [at for at, _, _ in steps.of(0)]
    times = times[int(len(times) * WARM_UP) :]
    if len(times) < 2:
        raise LostError("the ledger has no steps")
    return 1000 * (times[-1] - times[0]) / (len(times) - 1)
