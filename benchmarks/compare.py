"""Runs of several sides in turn, lost runs, medians, ratios and tables. Measures nothing itself."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lab.errors import LabError

Figures = Generator[tuple[str, "float | Exception"], None, None]
"""One run: yields each figure with its name as soon as it is known, or the reason why there is none."""

Measure = Callable[[], Figures]


class LostError(Exception):
    """A run without a figure; the message says why."""


@contextlib.contextmanager
def until_interrupted(say: Callable[[str], None]) -> Iterator[None]:
    """End what is inside at Ctrl-C, and say so: the figures until then are worth having."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: the figures are those until then")


@dataclass(frozen=True)
class Row:
    """One figure: the values of every run, here and for the peer, and what the peer is."""

    what: str
    values: tuple[float, ...]
    peer: str = ""
    peer_values: tuple[float, ...] = ()
    pairs: tuple[float, ...] = ()
    """Peer's value divided by ours, for each round in which both are known."""
    unit: str = "s"

    @property
    def median(self) -> float | None:
        """Median of our runs; None if all were lost."""
        return statistics.median(self.values) if self.values else None

    @property
    def ratio(self) -> float | None:
        """Peer's median divided by ours: above 1 means that we are faster, or smaller."""
        ours = self.median
        return statistics.median(self.peer_values) / ours if self.peer_values and ours else None

    @property
    def paired(self) -> float | None:
        """Median of the ratios of each round: slow changes of the machine cancel out in it."""
        return statistics.median(self.pairs) if self.pairs else None

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            **dataclasses.asdict(self),
            "median": self.median,
            "ratio": self.ratio,
            "paired_ratio": self.paired,
        }


@dataclass
class Found:
    """Result of a measurement in turn: (side, figure) -> round -> value, and the lost runs with reasons."""

    values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    lost: list[dict[str, object]] = field(default_factory=list)
    """`round` (counted from 1), `side`, `step`, `reason`."""

    def of(self, side: str, figure: str) -> dict[int, float]:
        """Return round -> value of one figure; empty if it was never measured."""
        return self.values.get((side, figure), {})

    @property
    def figures(self) -> tuple[str, ...]:
        """Every figure that any side has, in the order in which they came."""
        return tuple(dict.fromkeys(figure for _, figure in self.values))

    def lose(self, number: int, side: str, step: str, reason: str) -> None:
        """Record a run that gave no figures, or not all."""
        self.lost.append({"round": number + 1, "side": side, "step": step, "reason": reason})


def by_turns(what: str, sides: Mapping[str, Measure], runs: int, say: Callable[[str], None]) -> Found:
    """Measure each side in turn, round by round: A B A B. A run that fails is recorded as lost.

    An interrupt ends it with the figures until then.
    """
    measured = Found()
    with until_interrupted(say):
        for number in range(runs):
            for side, measure in sides.items():
                begun = f"{side}, {what}, {number + 1}/{runs}"
                try:
                    with contextlib.closing(measure()) as figures:
                        for figure, value in figures:
                            if isinstance(value, Exception):
                                measured.lose(number, side, figure, reason(value))
                                say(f"{begun}: {figure}: lost: {reason(value)}")
                                continue
                            measured.values.setdefault((side, figure), {})[number] = value
                            say(f"{begun}: {figure}: {value:.2f}")
                except Exception as error:  # whatever it is, the other runs are worth having
                    measured.lose(number, side, what, reason(error))
                    say(f"{begun}: lost: {reason(error)}")
    return measured


def reason(error: Exception) -> str:
    """Describe an error in one line."""
    text = error.message if isinstance(error, LabError) else str(error)
    first = next(iter(text.strip().splitlines()), "")
    return first if isinstance(error, LostError) else f"{type(error).__name__}: {first}".rstrip(": ")


def rows(measured: Found, ours: str, peer: str = "") -> list[Row]:
    """Return a row per figure."""
    made = []
    for figure in measured.figures:
        mine, theirs = measured.of(ours, figure), measured.of(peer, figure)
        pairs = tuple(theirs[n] / mine[n] for n in mine if n in theirs and mine[n])
        made.append(Row(figure, tuple(mine.values()), peer, tuple(theirs.values()), pairs))
    return made


def table(rows: Sequence[Row], lost: Sequence[Mapping[str, object]] = ()) -> str:
    """Format the rows as a Markdown table, with the lost runs below it."""
    lines = [
        "| what | median (min-max, runs) | peer | peer's median (min-max, runs) | peer / ours | of pairs |",
        "| --- " * 6 + "|",
    ]
    for row in rows:
        cells = (
            row.what,
            spread(row.values, row.unit),
            row.peer,
            spread(row.peer_values, row.unit) if row.peer else "",
            "" if row.ratio is None else f"{row.ratio:.1f}x",
            "" if row.paired is None else f"{row.paired:.1f}x",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\nlost: {_lost(loss)}" for loss in lost]
    return "\n".join(lines)


def spread(values: Sequence[float], unit: str = "s") -> str:
    """Format values as `12.3 s (11.0-14.2, 5)`; percents and ms with one digit, others as whole numbers."""
    if not values:
        return "none"
    digits = {"s": 2, "%": 1, "ms": 1}.get(unit, 0)
    median, least, most = (f"{v:.{digits}f}" for v in (statistics.median(values), min(values), max(values)))
    return f"{median} {unit} ({least}-{most}, {len(values)})"


def _lost(loss: Mapping[str, object]) -> str:
    return f"round {loss['round']}, {loss['side']}, {loss['step']}: {loss['reason']}"
