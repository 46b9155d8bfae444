"""The plan of a climb: the order of its rungs, the labs that are started for them, the time that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from lab.ext.fast_recovery.ladder.rungs import Rung
from lab.host.quantities import plural

EPOCHS = {"rank-kill": 36, "kill": 108}
"""Length of every training, by the fault: the same on every rung, enough to be whole again before the end.

After the loss of a node the survivors of some rungs go on alone until another node is there.
"""

EPOCH_SECONDS = 0.33
"""An epoch on two idle cores."""

BOOT_SECONDS = {True: 15.0, False: 10.0}
"""Start and end of a lab on two idle cores: with stock Ray, and as `up` starts it."""

USUAL_SECONDS = 30.0
"""Time for which this machine is taken to be as fast as two idle cores, before it has shown its own pace."""


@dataclass(frozen=True)
class Climb:
    """One rung in one run."""

    rung: Rung
    run: int


def in_order(rungs: Sequence[Rung], runs: int) -> tuple[Climb, ...]:
    """Return all climbs in their order, in which neighbours share a lab where they can.

    Every second run begins in the lab of the one before: at most `runs` + 1 labs are started. A machine that
    becomes busier does so for all rungs, since each run has every one of them.
    """
    groups = [tuple(group) for _, group in groupby(rungs, lambda rung: rung.stock_ray)]
    return tuple(
        Climb(rung, run)
        for run in range(1, runs + 1)
        for group in (groups if run % 2 else reversed(groups))
        for rung in group
    )


def labs(climbs: Sequence[Climb]) -> tuple[tuple[Climb, ...], ...]:
    """Return the climbs of each lab that is started for them, in order."""
    return tuple(tuple(group) for _, group in groupby(climbs, lambda climb: climb.rung.stock_ray))


def seconds_of(climbs: Sequence[Climb], fault: str) -> float:
    """Return the seconds that these rungs take on two idle cores, in labs that are up."""
    return sum(climb.rung.seconds + EPOCHS[fault] * EPOCH_SECONDS for climb in climbs)


def seconds_with_labs(climbs: Sequence[Sequence[Climb]], fault: str) -> float:
    """Return the seconds that these take together with the labs that are started for them."""
    return sum(BOOT_SECONDS[lab[0].rung.stock_ray] + seconds_of(lab, fault) for lab in climbs)


class Pace:
    """Estimates the time left: by what everything takes on two idle cores, and by this machine so far."""

    def __init__(self) -> None:
        self._planned = self._took = USUAL_SECONDS

    def took(self, planned: float, seconds: float) -> None:
        """Note that something which takes `planned` seconds on two idle cores took `seconds` here."""
        self._planned += planned
        self._took += seconds

    def left(self, planned: float) -> float:
        """Return the seconds that this will take here."""
        return planned * self._took / self._planned


def about(seconds: float) -> str:
    """`about 4 minutes left`."""
    minutes = round(seconds / 60)
    return f"about {plural(minutes, 'minute')} left" if minutes else "less than a minute left"
