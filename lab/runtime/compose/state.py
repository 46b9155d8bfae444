"""The decisions of `up` for a lab of containers: settings, ports, images and files, in one JSON file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.host.files import write_private
from lab.runtime import statefile
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
        """Whether stand-ins serve in place of MinIO and Prometheus' own image."""
        return "offline.yaml" in self.files


def load(folder: Path) -> ComposeState | None:
    """The state in `folder`, or None when there is none. Raises StateError when it cannot be read."""
    return statefile.load(folder / FILE, _decode)


def save(folder: Path, state: ComposeState) -> None:
    """Replace the state in `folder`, in one step."""
    document = {
        "schema": SCHEMA,
        "spec": dataclasses.asdict(state.spec),
        "ports": dict(state.ports),
        "files": list(state.files),
        "images": dict(state.images),
        "left_out": list(state.left_out),
        "notes": list(state.notes),
    }
    write_private(folder / FILE, json.dumps(document, indent=1))


def _decode(document: Mapping[str, Any]) -> ComposeState:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']!r} is not {SCHEMA!r}")
    return ComposeState(
        spec=LabSpec.from_json(document["spec"]),
        ports={str(name): int(port) for name, port in document["ports"].items()},
        files=tuple(str(file) for file in document["files"]),
        images={str(name): str(image) for name, image in document["images"].items()},
        left_out=tuple(str(name) for name in document["left_out"]),
        notes=tuple(str(note) for note in document["notes"]),
    )
