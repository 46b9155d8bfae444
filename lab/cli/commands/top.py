"""top: how busy each node is, which jobs share its GPU, and who waits.

Every job has a letter. The bar of a GPU is made of the letters of the jobs that share it, so two jobs on one
GPU are seen at a glance; a GPU whose use can be measured has a second bar for that. The lines fit 80 columns
and a terminal without Unicode.
"""

from __future__ import annotations

import string
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import click

from lab.cli import documents, format, values
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.output import Output, encodable
from lab.cli.render import SENTENCES
from lab.errors import INTERRUPTED, LabError, UsageError
from lab.host.clock import Clock
from lab.host.interrupts import exit_code
from lab.host.quantities import plural

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from lab.cluster.allocation import GpuLoad, Holding, NodeLoad, TopView
    from lab.lab import Lab

MIN_SECONDS = 0.2
OLD_SECONDS = 10.0
"""Age from which on numbers are marked as old."""

BAR, SMALL = 24, 10
"""Cells of a GPU's bar, and of CPU's and memory's."""

HEALTH = {"EVICT": "bold red", "WARN": "yellow", "UNKNOWN": "dim"}
"""Styles of the states of health."""

LETTERS = string.ascii_uppercase + string.ascii_lowercase
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


@click.command(cls=LabCommand)
@click.option("--once", is_flag=True, help="Print it once, as when the output is not a terminal.")
@click.option(
    "--every", type=values.Duration(), metavar="TIME",
    help="Time between two refreshes; with --json, print one document a line until Ctrl-C. [default: 1]",
)  # fmt: skip
@pass_app
def top(app: App, once: bool, every: float | None) -> None:
    """Show what runs on each node, how busy it is, and who waits.

    CPU, memory and GPUs of each node, live until Ctrl-C on a terminal; elsewhere once.
    """
    if every is not None and every < MIN_SECONDS:
        raise UsageError(f"--every {every:g}: must be at least {MIN_SECONDS:g} seconds")
    lab = app.open()
    stream = app.out.json_wanted and every is not None
    live = not app.out.json_wanted and sys.stdout.isatty()
    if once or not (stream or live):
        _print(app.out, lab.top(), lab.name)
        return
    try:
        if stream:
            _documents(app, lab, every or 1.0)
        else:
            _live(app, lab, every or 1.0)
    except KeyboardInterrupt as interrupt:
        if exit_code(interrupt) != INTERRUPTED:  # SIGTERM and SIGHUP keep their exit codes
            raise
        raise click.exceptions.Exit from interrupt


def _print(out: Output, view: TopView, lab: str) -> None:
    if out.json_wanted:
        out.document(documents.top(view))
        return
    for line in drawn(view, lab, unicode=encodable("█░")):
        out.show(line, width=SENTENCES)


def _documents(app: App, lab: Lab, interval: float) -> None:
    """Print a document a line; while the lab is down or its dashboard silent, one that says so."""
    app.out.document(documents.top(lab.top()), compact=True)
    while True:
        app.clock.sleep(interval)
        try:
            app.out.document(documents.top(lab.top()), compact=True)
        except LabError as error:
            lab.forget_connections()
            app.out.document({"problem": error.message}, compact=True)


class Feed:
    """The newest view, asked for in a thread: a dashboard that hangs does not stop the clock."""

    def __init__(self, ask: Callable[[], TopView], forget: Callable[[], None], clock: Clock) -> None:
        """Ask once, now; `forget` drops what is known of where to ask. Raises what `ask` raises."""
        self._ask, self._forget, self._clock = ask, forget, clock
        self.view = ask()
        self._at = clock()
        self._problem = ""

    def step(self) -> None:
        """Ask again; a failure leaves the view as it is. A lab that is back may have other ports."""
        try:
            view = self._ask()
        except LabError as error:
            self._problem = error.message
            self._forget()
        else:
            self.view, self._at, self._problem = view, self._clock(), ""

    @property
    def trouble(self) -> str:
        """A remark that the view is old, and why; empty when it is not."""
        age = self._clock() - self._at
        if not self._problem and age < OLD_SECONDS:
            return ""
        return f"{self._problem or 'Ray does not answer'}; these numbers are {age:.0f} s old"

    def follow(self, interval: float, stop: threading.Event) -> None:
        """Ask every `interval` seconds until `stop` is set."""
        while not stop.wait(interval):
            self.step()


def _live(app: App, lab: Lab, interval: float) -> None:
    from rich.console import Group
    from rich.live import Live

    unicode = encodable("█░")
    feed, stop = Feed(lab.top, lab.forget_connections, app.clock), threading.Event()

    def draw() -> RenderableType:
        lines = drawn(feed.view, lab.name, unicode=unicode, trouble=feed.trouble)
        return Group(*lines)

    threading.Thread(target=feed.follow, args=(interval, stop), daemon=True).start()
    try:
        console = app.out.console()
        with Live(console=console, get_renderable=draw, auto_refresh=False, screen=False) as shown:
            while True:
                shown.refresh()
                app.clock.sleep(min(interval, 1.0))
    finally:
        stop.set()


def drawn(view: TopView, lab: str, *, unicode: bool, trouble: str = "") -> list[Text]:
    """Draw the view; who waits comes first, as a terminal cuts the end of what it has no room for.

    `trouble` says that the view is old, and why.
    """
    from rich.text import Text

    letters = lettered(view)
    lines = [
        Text(f"lab {lab}  {time.strftime('%H:%M:%S', time.localtime(view.at))}", style="bold"),
        *([Text(trouble, style="bold red")] if trouble else []),
    ]
    if view.waiting:
        lines.append(Text("waiting", style="bold"))
        for item in view.waiting:
            style = "red" if item.kind == "infeasible" else "yellow"
            lines.append(Text(f"  {item.kind:<10}  {format.waits(item)}", style=style))
    else:
        lines.append(Text("no job waits", style="dim"))
    for node in view.nodes:
        health = view.health.get(node.service, ("", ""))
        lines += [Text(), *_node(node, letters, health, unicode=unicode)]
    lines.append(Text())
    return [*lines, *(Text(f"note: {note}", style="dim") for note in view.notes)]


def lettered(view: TopView) -> dict[str, str]:
    """Give each job a letter, by name, so that it keeps it while it runs beside others."""
    jobs = sorted({h.job for n in view.nodes for h in n.holdings})
    return {job: LETTERS[place] if place < len(LETTERS) else "*" for place, job in enumerate(jobs)}


def _node(
    node: NodeLoad, letters: Mapping[str, str], health: tuple[str, str], *, unicode: bool
) -> Iterable[Text]:
    from rich.text import Text

    from lab.cluster.allocation import amounts

    head = Text(f"{node.service:<14}", style="bold")
    if node.cpu_percent is None:
        head.append("  CPU not measured yet", style="dim")
    else:
        cores = node.cores or 1
        head.append(f"  CPU {_bar(node.cpu_percent / 100 / cores, unicode)} ", style="")
        head.append(f"{node.cpu_percent:.0f} % of {plural(cores, 'core')}".ljust(18))
    if node.memory_used is not None and node.memory_limit:
        head.append(f"  memory {format.size(node.memory_used)} of {format.size(node.memory_limit)}")
    yield head
    state, reason = health
    if state not in ("", "PASS"):
        yield Text(f"  health {state}: {reason}", style=HEALTH.get(state, ""))
    for gpu in node.gpus:
        yield from _gpu(gpu, node.holdings, letters, unicode=unicode)
    for holding in node.holdings:
        line = Text("  ")
        line.append(letters[holding.job], style=_style(letters[holding.job]))
        line.append(f"  {holding.what} of {holding.job}  ({amounts(holding.resources)})")
        yield line


def _gpu(
    gpu: GpuLoad, held: Iterable[Holding], letters: Mapping[str, str], *, unicode: bool
) -> Iterable[Text]:
    from rich.text import Text

    line = Text(f"  GPU {gpu.index}  share [")
    left = BAR
    for holding in held:
        letter = letters[holding.job]
        cells = min(left, round(BAR * holding.resources.get("GPU", 0.0)))
        line.append(letter * cells, style=_style(letter, filled=True))
        left -= cells
    line.append("." * left, style="dim")
    line.append(f"] {gpu.share:g} of 1")
    line.append(f"  {gpu.name}" if gpu.name else "", style="dim")
    yield line
    if gpu.simulated:
        return
    busy = "cannot be read" if gpu.utilization is None else ""
    use = Text("         use   ")
    use.append(busy or f"{_bar((gpu.utilization or 0.0) / 100, unicode, BAR)} {gpu.utilization or 0.0:.0f} %")
    if gpu.memory_used is not None and gpu.memory_total:
        use.append(f"  memory {format.size(gpu.memory_used)} of {format.size(gpu.memory_total)}")
    yield use


def _bar(part: float, unicode: bool, width: int = SMALL) -> str:
    filled = min(width, max(0, round(part * width)))
    full, empty = ("█", "░") if unicode else ("#", ".")
    return f"[{full * filled}{empty * (width - filled)}]"


def _style(letter: str, *, filled: bool = False) -> str:
    colour = COLOURS[LETTERS.index(letter) % len(COLOURS)] if letter in LETTERS else "white"
    return f"black on {colour}" if filled else f"bold {colour}"


COMMANDS = (top,)
