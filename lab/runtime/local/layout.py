"""The place of everything that a lab of processes keeps on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.api.hub import FOLDER
from lab.host.files import data_folder


@dataclass(frozen=True)
class Layout:
    """Folders and files of one lab."""

    folder: Path
    ray_temporary: Path
    """Short, because Ray puts Unix sockets below it and their paths may have 107 characters."""
    scratch: Path
    """Folder of the services' temporary files: their TMPDIR, which `down` removes with all in it."""

    @property
    def secrets(self) -> Path:
        """Files with keys and tokens, mode 0600."""
        return self.folder / "secrets"

    def objects(self, store: str) -> Path:
        """Folder of the stored objects; each kind of server has its own format, so its own folder."""
        return self.folder / "objects" / store

    @property
    def forks(self) -> Path:
        """Folder of the fork server's sockets; short, as Ray's folder is, and not a part of it."""
        return self.ray_temporary.with_name(f"{self.ray_temporary.name}-forks")

    @property
    def redis(self) -> Path:
        """Folder of Redis: the state of one cluster, which ends with it."""
        return self.folder / "redis"

    @property
    def queue(self) -> Path:
        """Folder of the queues' controller, which outlives `down`."""
        return self.folder / "queue"

    @property
    def jupyter(self) -> Path:
        """Folder of JupyterLab's own settings and tools."""
        return self.folder / "jupyter"

    @property
    def hub(self) -> Path:
        """Folder of the hub: its state, and a home for each person. It outlives `down`."""
        return self.folder / FOLDER

    @property
    def data(self) -> Path:
        return data_folder(self.folder.parent)

    def log(self, service: str) -> Path:
        return self.folder / "logs" / f"{service}.log"

    def mark(self, service: str) -> str:
        """The value of MARK in every process of a service."""
        return f"{self.folder}:{service}"
