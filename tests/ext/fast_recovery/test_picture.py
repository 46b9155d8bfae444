"""The picture of the ladder: a training that is over is not one that stands still."""

from __future__ import annotations

from lab.ext.fast_recovery.ladder import RUNGS, Attempted, Ladder
from lab.ext.fast_recovery.ladder.measure import Measured, StepRow
from lab.ext.fast_recovery.ladder.picture import draw

OVER = "training over"


def rung(number: int, gap: float, *ends: float) -> Attempted:
    """A rung whose ranks step until these times, the first of them after this gap."""
    rows = tuple(
        StepRow(rank, (-1.0, gap, end), (), None if rank else (0.0, gap)) for rank, end in enumerate(ends)
    )
    return Attempted(RUNGS[number], 1, measured=Measured(0.1, gap, gap, 10, 1000, 0, 90.0, rows))


def words(*attempts: Attempted) -> list[str]:
    """The words at the ends of rows, in the picture of these."""
    drawn = draw(Ladder("rank-kill", "local", tuple(attempt.rung for attempt in attempts), attempts))
    assert drawn is not None
    return [text.get_text() for text in drawn.axes[0].texts if text.get_text() == OVER]


def test_a_row_that_ends_before_the_slowest_rung_is_back_says_that_its_training_is_over() -> None:
    assert words(rung(0, 13.0, 22.0, 22.0), rung(2, 1.5, 9.0, 9.0)) == [OVER, OVER]


def test_rows_that_go_on_until_the_end_say_nothing() -> None:
    assert words(rung(0, 13.0, 22.0, 22.0), rung(2, 1.5, 20.0, 20.0)) == []
    assert words(rung(0, 13.0, 22.0, 22.0), rung(2, 1.5, 14.0, 14.0)) == []  # no room for words


def test_a_rank_that_never_came_back_did_not_end_with_its_training() -> None:
    assert words(rung(0, 13.0, 22.0, 22.0), rung(2, 1.5, 9.0, 1.5)) == [OVER]
