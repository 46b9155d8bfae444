"""The decisions of `up` for a lab of containers: settings, ports, images and files, in one JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.runtime import statefile
from lab.runtime.compose.images.model import OFFLINE_FILE
from lab.topology import LabSpec

SCHEMA = "raylab-compose/1"
FILE = statefile.COMPOSE_FILE
ENV_FILE = "compose.env"
OVERRIDE_FILE = "compose.override.json"
FAILED = "failed"
"""Folder with the logs of services that did not start."""


@dataclass(frozen=True)
class ComposeState:
    """A lab as `up` made it. Which containers run is asked of the engine, never read from here."""

    spec: LabSpec
    ports: Mapping[str, int]
    files: tuple[str, ...]
    """Files of compose/, in their order; the override comes after them."""
    images: Mapping[str, str]
    """Variable of the env file -> image."""
    left_out: tuple[str, ...] = ()
    """Services that are not started for want of their image."""
    notes: tuple[str, ...] = ()

    @property
    def stand_in(self) -> bool:
        """True when a server of the lab's own serves in place of MinIO."""
        return OFFLINE_FILE in self.files


def load(folder: Path) -> ComposeState | None:
    """The state in `folder`, or None when there is none. Raises StateError when it cannot be read."""
    return statefile.load(folder / FILE, SCHEMA, ComposeState)


def save(folder: Path, state: ComposeState) -> None:
    statefile.save(folder / FILE, SCHEMA, state)
