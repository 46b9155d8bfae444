"""The result of a ladder: every rung in every run, medians, and reasons for what was not measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, fields

from lab.ext.fast_recovery.documents import LADDER_SCHEMA, Figures, LadderDocument, RungDocument, RungRun
from lab.ext.fast_recovery.ladder.measure import Measured
from lab.ext.fast_recovery.ladder.rungs import Rung
from lab.host.quantities import rounded

FIGURES = tuple(field.name for field in fields(Figures))
"""Fields of `Measured` that have a median, in the order of the table."""


@dataclass(frozen=True)
class Attempted:
    """One rung in one run: what was measured, or why nothing was."""

    rung: Rung
    run: int
    job: str = ""
    verdict: str = ""
    """The receipt's; empty without one."""
    measured: Measured | None = None
    reason: str = ""
    """Why nothing was measured, or the receipt's reason where its verdict is not good."""
    impossible: bool = False
    """True where this machine cannot do it at all: no failure."""

    @property
    def failed(self) -> bool:
        """True where something went wrong that should not."""
        return bool(self.reason) and not self.impossible

    def document(self) -> RungRun:
        """Return it as `--json` has it."""
        return RungRun(
            self.run,
            self.job,
            self.verdict or None,
            None if self.measured is None else self.measured.figures,
            self.reason or None,
            self.impossible,
        )


@dataclass(frozen=True)
class Ladder:
    """All rungs, side by side."""

    fault: str
    runtime: str
    rungs: tuple[Rung, ...]
    attempts: tuple[Attempted, ...]
    interrupt: KeyboardInterrupt | None = None
    """The interrupt after which nothing more was measured."""

    def of(self, rung: Rung) -> tuple[Attempted, ...]:
        """Return the runs of a rung, in their order."""
        return tuple(attempt for attempt in self.attempts if attempt.rung == rung)

    def measured(self, rung: Rung) -> tuple[Measured, ...]:
        return tuple(attempt.measured for attempt in self.of(rung) if attempt.measured is not None)

    def median(self, rung: Rung, figure: str) -> float | None:
        """Return the median of one of FIGURES over the runs in which it is known."""
        values: list[float | None] = [getattr(measured, figure) for measured in self.measured(rung)]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    def typical(self, rung: Rung) -> Measured | None:
        """Return the run whose gap is nearest to the median; None where nothing was measured."""
        middle = self.median(rung, "longest_gap") or 0.0
        runs = self.measured(rung)
        return min(runs, key=lambda run: abs((run.longest_gap or 0.0) - middle), default=None)

    @property
    def failures(self) -> tuple[Attempted, ...]:
        """The runs in which something went wrong."""
        return tuple(attempt for attempt in self.attempts if attempt.failed)

    def document(self) -> LadderDocument:
        """Return it as `--json` has it: a public contract."""
        return LadderDocument(
            LADDER_SCHEMA,
            self.fault,
            self.runtime,
            self.interrupt is not None,
            tuple(
                RungDocument(
                    rung.name,
                    rung.summary,
                    Figures(**{figure: rounded(self.median(rung, figure)) for figure in FIGURES}),
                    tuple(run.document() for run in self.of(rung)),
                )
                for rung in self.rungs
            ),
        )
