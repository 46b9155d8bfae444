"""The pictures of README and docs, light and dark, drawn from recorded runs: `make pictures`.

The ladder is drawn from the first table of docs/survivors.md, the receipt from docs/pictures/receipt.json,
the document of a real run (`labctl receipt --json`). A new run: put its figures there, then draw again.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.api.receipt import ReceiptDocument
from lab.ext.fast_recovery.ladder.rungs import RUNGS
from lab.ext.report.find import parse_receipt

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"

TITLES: Mapping[str, str] = {rung.name: rung.title for rung in RUNGS}

WIDTH, LEFT, RIGHT, TOP, ROW = 540, 254, 70, 62, 34
"""Pixels: of the picture, beside and above the bars, and from one bar to the next."""


@dataclass(frozen=True)
class Theme:
    """Colours of a picture."""

    name: str
    paper: str
    ink: str
    quiet: str
    bar: str
    best: str


THEMES = (
    Theme("light", "#ffffff", "#1f2328", "#59636e", "#d1242f", "#1a7f37"),
    Theme("dark", "#0d1117", "#f0f6fc", "#9198a1", "#f85149", "#3fb950"),
)


def gaps(page: str) -> dict[str, float]:
    """Rung -> longest gap in seconds, of the first table of docs/survivors.md that has them."""
    table = page.split("RUNG      DETECTED", 1)[1].split("```", 1)[0]
    rows = re.findall(r"^(\w+) +\S+ s +([\d.]+) s ", table, re.MULTILINE)
    return {name: float(seconds) for name, seconds in rows}


def ladder(seconds: Mapping[str, float], theme: Theme) -> str:
    """The bars of all rungs on one time axis, as SVG."""
    longest = max(seconds.values())
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + ROW * len(seconds) + 34
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
            f"<title>{html.escape(in_words(seconds))}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{theme.paper}"/>',
            _text(16, 30, "How long training stands still after a process is killed", theme.ink, 17),
            *_bars(seconds, scale, theme),
            _text(16, height - 14, "seconds, medians of three runs, two cores, no GPU", theme.quiet, 13),
            "</svg>\n",
        ]
    )


def _bars(seconds: Mapping[str, float], scale: float, theme: Theme) -> Iterator[str]:
    best = min(seconds.values())
    for number, (rung, value) in enumerate(seconds.items()):
        y = TOP + ROW * number
        yield _text(LEFT - 12, y + 16, TITLES[rung], theme.ink, 15, "end")
        colour = theme.best if value == best else theme.bar
        yield f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="22" rx="3" fill="{colour}"/>'
        yield _text(LEFT + value * scale + 8, y + 16, f"{value:g} s", theme.ink, 15)


def _text(x: float, y: float, words: str, colour: str, size: int, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}>{html.escape(words)}</text>"


def in_words(seconds: Mapping[str, float]) -> str:
    """What the picture of the ladder shows, for whoever cannot see it."""
    shown = ", ".join(f"{TITLES[rung]} {value:g} s" for rung, value in seconds.items())
    return f"How long a training stands still after the loss of a process: {shown}"


def receipt(document: ReceiptDocument, theme: Theme) -> str:
    """The receipt as a terminal shows it, as Rich exports it to SVG."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI

    from lab.cli.output import PANEL_WIDTH
    from lab.cli.receipt_panel import panel

    console = Console(
        record=True, width=PANEL_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(panel(document, unicode=True))
    colours = DEFAULT_TERMINAL_THEME if theme.name == "light" else MONOKAI
    svg = console.export_svg(title="labctl receipt", theme=colours, unique_id="receipt")
    return re.sub(
        r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL
    )  # fonts from elsewhere: no page loads them


def pictures() -> dict[str, str]:
    """File name -> SVG of every picture."""
    seconds = gaps((ROOT / "docs" / "survivors.md").read_text(encoding="utf-8"))
    document = parse_receipt((FOLDER / "receipt.json").read_bytes(), "docs/pictures/receipt.json")
    return {
        f"{name}-{theme.name}.svg": svg
        for theme in THEMES
        for name, svg in (("ladder", ladder(seconds, theme)), ("receipt", receipt(document, theme)))
    }


def main() -> None:
    """Draw all pictures into docs/pictures."""
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
        print(f"docs/pictures/{name}: {len(svg) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
