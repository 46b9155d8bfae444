"""What the machines of the tests know of the ports of their labs: they are asked at every look of an `up`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any


def recorded_ports(folder: Path, file: str, load: Callable[[Path], Any]) -> Mapping[str, int]:
    """The ports in a lab's state, none without one. It is read by `load`, once for each that was written."""
    try:
        written = (folder / file).read_bytes()
    except OSError:
        return {}
    return _ports(load, folder, written)


@lru_cache(maxsize=100)
def _ports(load: Callable[[Path], Any], folder: Path, written: bytes) -> Mapping[str, int]:
    ports: Mapping[str, int] = load(folder).ports
    return ports
