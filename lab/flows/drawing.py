"""The look of pictures: colours for the colour-blind (Okabe and Ito), and shapes that say the same."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

WIDTH = 7.2
"""Inches: the width of the text on an A4 page."""

DOTS = 200
"""Dots per inch of a PNG."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C6D1F")
"""The palette of Okabe and Ito, the most distinct first, without its yellow, which is too light on white."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "+++", "|||")

FAULT = "#B00020"
INK = "#222222"
QUIET = "#6B6B6B"
PALE = "#C9CED6"
GRID = "#E6E8EC"

DARK: dict[str, str] = {
    **{"#FFFFFF": "#15191E", INK: "#E6E8EB", QUIET: "#9AA3AD", PALE: "#515B66", GRID: "#2C333B"},
    **{"#F1F1F1": "#20262D", FAULT: "#FF7285", "#0072B2": "#4BA6DE", "#D55E00": "#F58A3C"},
    **{"#009E73": "#2FC297", "#8C6D1F": "#BC9A4E"},
    **{"#D4D7DC": "#3A424B", "#D6E8F4": "#1C3A4F", "#FFF3D6": "#3A2F14"},
}
"""Colour on a light page -> colour on a dark one; the others of the palette are seen on both."""

RC: dict[str, object] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "raylab",
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


def of(values: Sequence[T], place: int) -> T:
    """The entry at a place, counted from 0; they repeat when there are more places."""
    return values[place % len(values)]


@contextmanager
def styled() -> Iterator[None]:
    """Make matplotlib draw in this style."""
    import matplotlib

    with matplotlib.rc_context(RC):
        yield


def figure(height: float, width: float = WIDTH) -> Figure:
    """An empty picture of this height and width, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def render(drawn: Figure, form: str, *, dark: bool = True) -> bytes:
    """A picture as `svg` or `png`, the same bytes every time; an SVG has colours for a dark screen, too.

    Without `dark` it has none: the page that it becomes a part of has its own.
    """
    out = io.BytesIO()
    # Without what changes from call to call, and without addresses in it.
    metadata: dict[str, None] = {"Software": None}
    if form == "svg":
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    drawn.savefig(out, format=form, dpi=DOTS, metadata=metadata)
    return adaptive(out.getvalue()) if form == "svg" and dark else out.getvalue()


def adaptive(svg: bytes) -> bytes:
    """The SVG with the colours of DARK for a screen that its reader wants dark."""
    rules = "".join(
        f'[style*="{kind}: {light.lower()}"],[{kind}="{light.lower()}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media screen and (prefers-color-scheme: dark){{{rules}}}</style>"
    head, opening, rest = svg.partition(b"<svg ")
    attributes, end, body = rest.partition(b">")
    return b"".join((head, opening, attributes, end, style.encode(), body))


def legend(drawn: Figure, axes: Iterable[Axes], place: str, columns: int = 4) -> None:
    """One legend for these axes, each label once; `place` is such as `upper left`, outside of them."""
    handles: dict[str, Artist] = {}
    for plot in axes:
        for handle, label in zip(*plot.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawn.legend(handles.values(), handles.keys(), loc=f"outside {place}", ncols=columns, columnspacing=1.6)


def fault_line(axes: Axes, at: float = 0.0, *, label: str = "") -> None:
    """A vertical line where the fault was, labelled at its top, or else in the legend."""
    named = {} if label else {"label": "fault"}
    axes.axvline(at, color=FAULT, linewidth=1.4, linestyle=(0, (4, 2)), zorder=5, **named)
    if label:
        left, right = axes.get_xlim()
        late = at > left + 0.6 * (right - left)
        axes.annotate(
            label, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(-3 if late else 3, 2),
            textcoords="offset points", color=FAULT, fontsize=8.5, va="bottom",
            ha="right" if late else "left", annotation_clip=False,
        )  # fmt: skip
