"""Display of what takes long: lines of progress, and the timeline of a recovery."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from lab.cli.output import Output, encodable
from lab.flows.labels import moment_label
from lab.host.clock import MONOTONIC, Clock

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from lab.flows.recovery import Moment
    from lab.topology import Progress

ORDER = (
    "fault",
    "node_dead",
    "failure_detected",
    "attempt_started",
    "restored",
    "first_step",
    "first_report",
    "node_rejoined",
    "job_finished",
)
"""The story of a recovery in its usual order; these lines are drawn from the start."""

PASSING = ("waiting", "progress", "control")
"""Moments that follow one another on one line at the bottom."""


def after(seconds: float | None) -> str:
    """Seconds after the fault: `+1.2 s`; empty for None."""
    return "" if seconds is None else f"{seconds:+.1f} s"


class ProgressLines:
    """A line on stderr for each step of `up`, `down` and `restart`; a step that repeats is said once."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self._said: set[tuple[str, str, str]] = set()

    def progress(self, step: Progress) -> None:
        said = (step.service, step.state.value, step.detail)
        if said not in self._said:
            self._said.add(said)
            self._say(
                f"{step.seconds:7.1f} s  {step.service:<14}  {step.state.value:<8}  {step.detail}".rstrip()
            )

    def _say(self, line: str) -> None:
        self.out.note(line)


class Story(ProgressLines):
    """The timeline of a recovery: on a terminal a list that fills in, elsewhere a line for each moment."""

    def __init__(self, out: Output, clock: Clock = MONOTONIC, *, live: bool = True) -> None:
        """Without `live`, print lines on a terminal too: for more than one fault."""
        super().__init__(out)
        self._clock, self._lines = clock, not live
        self._moments: dict[str, Moment] = {}
        self._passing: Moment | None = None
        self._began = 0.0
        self._live: Live | None = None
        self._unicode = encodable("✓·⠋", sys.stderr)
        """Determined before rich replaces stderr."""

    def __enter__(self) -> Story:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._passing, self._began = None, 0.0
            self._live.update(self._drawn())
            self._live.stop()
            self._live = None

    def moment(self, moment: Moment) -> None:
        if self._lines or not sys.stderr.isatty() or self.out.quiet:
            self._say(f"{after(moment.seconds):>9}  {moment_label(moment.key):<18}  {moment.text}".rstrip())
            return
        name = moment.key.split(" ")[0]
        if name in PASSING:
            self._passing = moment
        elif name in ORDER or moment.seconds is not None:
            self._moments[name] = moment
            if name == "fault":
                self._began = self._clock()
            elif name == "job_finished":
                self._passing, self._began = None, 0.0
        else:
            self._say(f"{moment_label(name)}: {moment.text}")
        if self._live is None:
            from rich.live import Live

            console = self.out.console(stderr=True)
            self._live = Live(
                console=console, get_renderable=self._drawn, refresh_per_second=8, redirect_stdout=False
            )
            self._live.start()
        self._live.refresh()

    def _say(self, line: str) -> None:
        if self._live is not None:
            self._live.console.print(line)
        else:
            self.out.note(line)

    def _drawn(self) -> Group:
        """The timeline as it is now."""
        from rich.console import Group
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        unicode = self._unicode
        rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        rows.add_column(width=1)
        rows.add_column(justify="right", width=8)
        rows.add_column(width=18)
        rows.add_column(overflow="fold")
        if "fault" in self._moments:
            extra = [key for key in self._moments if key not in ORDER]
            for key in (*ORDER, *extra):
                seen = self._moments.get(key)
                if seen is None:
                    rows.add_row(
                        *(Text(t, style="dim") for t in ("·" if unicode else ".", "", moment_label(key), ""))
                    )
                    continue
                mark = Text("✓" if unicode else "*", style="green")
                if key == "fault":
                    mark = Text("!", style="bold red")
                rows.add_row(
                    mark, Text(after(seen.seconds), style="bold"), Text(moment_label(key)), Text(seen.text)
                )
        footer: list[Spinner] = []
        if self._passing is not None or self._began:
            clock = f"{after(self._clock() - self._began)}  " if self._began else ""
            passing = self._passing.text if self._passing else ""
            footer = [Spinner("dots" if unicode else "line", f"{clock}{passing}")]
        return Group(rows, *footer)
