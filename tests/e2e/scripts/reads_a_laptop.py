"""A job that wants a file of somebody's laptop."""

from __future__ import annotations

from pathlib import Path

print(Path("/home/somebody/data/train.csv").read_text())
