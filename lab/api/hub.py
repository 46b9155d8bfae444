"""What labctl tells the hub of a class of its lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

VARIABLE = "RAYLAB_HUB"
"""Environment variable of the hub with its settings as JSON; there is no secret among them."""

FOLDER = "hub"
"""Folder of the hub in the folder of a lab."""

HOMES = "homes"
"""Folder in it with a home for each person."""

DROP_IN = "jupyterhub_config.py"
"""File of the teacher's in the folder of the hub, which the hub reads last."""

HOMES_INSIDE = "/var/lib/raylab/hub/homes"
"""Folder of the people's homes in a container of the hub."""


def homes(lab: Path) -> Path:
    """The folder of the people's homes in the folder of a lab."""
    return lab / FOLDER / HOMES


@dataclass(frozen=True)
class HubSettings:
    """All that the hub has to know."""

    lab: str
    folder: str
    """Folder of its state."""
    homes: str
    """Folder of the people's homes."""
    tools: str
    """Folder with the `labctl` of people's terminals in its `bin`."""
    drop_in: str
    """File of the teacher's that is read last, if it is there."""
    people: str
    """Folder of the list of people."""
    mark: str
    """Mark of all processes of the hub; a person's server has her name added."""
    host: str
    port: int
    """Port of the address that people use."""
    api_port: int
    """Port of the hub itself, behind that."""
    gateway: str
    store: str
    workspace: str
    modules: str
    """PYTHONPATH of a person's server: the folder of `lab`."""
    jupyter: str
    """JUPYTER_CONFIG_PATH of a person's server: folders of JupyterLab's settings, the first before all."""
    data: str
    """Folder of data sets."""
    page: str = ""
    """Address of the class's page, as a browser has it."""
    listen: str = ""
    """Address that the proxy before the hub listens on, where that is not `host`."""
    trusted: tuple[str, ...] = ("127.0.0.1/32",)
    """Networks from which it believes another proxy for whom it asks, and by which scheme."""
    accounts: bool = False
    """Each person's server runs as a Unix user of her own: the hub is root, in a container of its own."""
