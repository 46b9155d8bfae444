"""top: how busy each node is, which jobs share its GPU, and who waits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from lab.cli import documents
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.output import Output, encodable
from lab.cli.render import SENTENCES
from lab.cli.topview import drawn
from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lab.cluster.allocation import TopView
    from lab.lab import Lab

MIN_SECONDS, MAX_SECONDS = 0.2, 3600.0
OLD_SECONDS = 10.0
"""Numbers older than this are said to be old."""


@click.command(cls=LabCommand)
@click.option("--once", is_flag=True, help="Print it once, as where the output is no terminal.")
@click.option(
    "--interval", type=float, metavar="SECONDS",
    help="Time between two refreshes; with --json, print one document a line until Ctrl-C. [default: 1]",
)  # fmt: skip
@pass_app
def top(app: App, once: bool, interval: float | None) -> None:
    """Show what runs on each node, how busy it is, and who waits.

    CPU, memory and GPUs of each node, live until Ctrl-C on a terminal; elsewhere once.
    """
    if interval is not None and not MIN_SECONDS <= interval <= MAX_SECONDS:
        raise UsageError(
            f"--interval {interval:g}: must be between {MIN_SECONDS:g} and {MAX_SECONDS:g} seconds"
        )
    lab = app.open().lab
    stream = app.out.json_wanted and interval is not None
    live = not app.out.json_wanted and sys.stdout.isatty()
    if once or not (stream or live):
        _print(app.out, lab.top(), lab.name)
        return
    try:
        if stream:
            _documents(app.out, lab, interval or 1.0)
        else:
            _live(app.out, lab, interval or 1.0)
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:  # SIGTERM and SIGHUP, which keep their exit codes
            raise


def _print(out: Output, view: TopView, lab: str) -> None:
    if out.json_wanted:
        out.document(documents.top(view))
        return
    for line in drawn(view, lab, unicode=encodable("█░")):
        out.show(line, width=SENTENCES)


def _documents(out: Output, lab: Lab, interval: float) -> None:
    """A document a line; while the lab is down or its dashboard silent, one that says so."""
    out.document(documents.top(lab.top()), compact=True)
    while True:
        time.sleep(interval)
        try:
            out.document(documents.top(lab.top()), compact=True)
        except LabError as error:
            lab.forget_connections()
            out.document({"problem": error.message}, compact=True)


class Feed:
    """The newest view, asked for in a thread: a dashboard that hangs does not stop the clock."""

    def __init__(
        self,
        ask: Callable[[], TopView],
        forget: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Asks once, now; `forget` drops what is known of where to ask. Raises what `ask` raises."""
        self._ask, self._forget, self._clock = ask, forget, clock
        self.view = ask()
        self._at = clock()
        self._problem = ""

    def step(self) -> None:
        """Ask again; what cannot be had leaves the view as it is. A lab that is back may have other ports."""
        try:
            view = self._ask()
        except LabError as error:
            self._problem = error.message
            self._forget()
        else:
            self.view, self._at, self._problem = view, self._clock(), ""

    @property
    def trouble(self) -> str:
        """That the view is old, and why; empty when it is not."""
        age = self._clock() - self._at
        if not self._problem and age < OLD_SECONDS:
            return ""
        return f"{self._problem or 'Ray does not answer'}; these numbers are {age:.0f} s old"

    def follow(self, interval: float, stop: threading.Event) -> None:
        """Ask every `interval` seconds until `stop` is set."""
        while not stop.wait(interval):
            self.step()


def _live(out: Output, lab: Lab, interval: float) -> None:
    from rich.console import Group
    from rich.live import Live

    unicode = encodable("█░")
    feed, stop = Feed(lab.top, lab.forget_connections), threading.Event()

    def draw() -> RenderableType:
        lines = drawn(feed.view, lab.name, unicode=unicode, trouble=feed.trouble)
        return Group(*lines)

    threading.Thread(target=feed.follow, args=(interval, stop), daemon=True).start()
    try:
        with Live(console=out.console(), get_renderable=draw, auto_refresh=False, screen=False) as shown:
            while True:
                shown.refresh()
                time.sleep(min(interval, 1.0))
    finally:
        stop.set()


COMMANDS = (top,)
