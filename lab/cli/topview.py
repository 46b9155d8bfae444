"""The view of `labctl top`, as lines that fit 80 columns and a terminal without Unicode.

Every job has a letter. The bar of a GPU is made of the letters of the jobs that share it, so two jobs on one
GPU are seen at a glance; a GPU whose use can be measured has a second bar for that.
"""

from __future__ import annotations

import string
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lab.cli import text
from lab.cluster.allocation import amounts

if TYPE_CHECKING:
    from rich.text import Text

    from lab.cluster.allocation import GpuLoad, Holding, NodeLoad, TopView

BAR, SMALL = 24, 10
"""Cells of a GPU's bar, and of CPU's and memory's."""

LETTERS = string.ascii_uppercase + string.ascii_lowercase
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


def drawn(view: TopView, lab: str, *, unicode: bool, trouble: str = "") -> list[Text]:
    """The view, a line each; who waits comes first, as a terminal cuts the end of what it has no room for.

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
            lines.append(Text(f"  {item.kind:<10}  {text.waits(item)}", style=style))
    else:
        lines.append(Text("no job waits", style="dim"))
    for node in view.nodes:
        lines += [Text(), *_node(node, letters, unicode=unicode)]
    lines.append(Text())
    return [*lines, *(Text(f"note: {note}", style="dim") for note in view.notes)]


def lettered(view: TopView) -> dict[str, str]:
    """Job -> its letter: by name, so that it keeps it while it runs beside others."""
    jobs = sorted({h.job for n in view.nodes for h in n.holdings})
    return {job: LETTERS[place] if place < len(LETTERS) else "*" for place, job in enumerate(jobs)}


def _node(node: NodeLoad, letters: Mapping[str, str], *, unicode: bool) -> Iterable[Text]:
    from rich.text import Text

    head = Text(f"{node.service:<14}", style="bold")
    if node.cpu_percent is None:
        head.append("  CPU not measured yet", style="dim")
    else:
        cores = node.cores or 1
        head.append(f"  CPU {_bar(node.cpu_percent / 100 / cores, unicode)} ", style="")
        head.append(f"{node.cpu_percent:.0f} % of {text.count(cores, 'core')}".ljust(18))
    if node.memory_used is not None and node.memory_limit:
        head.append(f"  memory {text.size(node.memory_used)} of {text.size(node.memory_limit)}")
    yield head
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
        use.append(f"  memory {text.size(gpu.memory_used)} of {text.size(gpu.memory_total)}")
    yield use


def _bar(part: float, unicode: bool, width: int = SMALL) -> str:
    filled = min(width, max(0, round(part * width)))
    full, empty = ("█", "░") if unicode else ("#", ".")
    return f"[{full * filled}{empty * (width - filled)}]"


def _style(letter: str, *, filled: bool = False) -> str:
    colour = COLOURS[LETTERS.index(letter) % len(COLOURS)] if letter in LETTERS else "white"
    return f"black on {colour}" if filled else f"bold {colour}"
