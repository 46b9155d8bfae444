"""Templates, which escape what they are given in HTML, and the style (style.css) that all pages share."""

from __future__ import annotations

import base64
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

STYLE = Path(__file__).parent / "style.css"


@cache
def templates(folder: Path) -> Environment:
    """Jinja2 over a folder and that of the style; it escapes values in HTML, and fails on an unknown name.

    One in a process for each folder: what it has compiled, it keeps.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader((folder, Path(__file__).parent)),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    environment.filters["clock"] = clock
    return environment


def clock(at: float) -> str:
    """A time in UTC, given in seconds since the epoch."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
