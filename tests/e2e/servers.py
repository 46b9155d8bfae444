"""An object store alone, as a lab of processes starts it: MinIO or the stand-in."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from lab.host.secrets import load_or_make
from lab.runtime.local.layout import Layout
from lab.runtime.local.services import Command, ServicePlan
from lab.services import STORE
from lab.store import ObjectStore, setup
from lab.topology import LabSpec
from tests.minio import minio_program
from tests.programs import free_port
from tests.s3_client import SigningClient
from tests.waiting import PATIENCE


class S3Server:
    """One server with a folder, a port and keys of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        """`kind` is that of the state file: `minio` or `moto`."""
        self.kind, self.folder = kind, folder
        layout = Layout(folder, folder / "ray", folder / "tmp")
        self.secrets = load_or_make(layout.secrets)
        layout.objects(kind).mkdir(parents=True)
        ports = {"s3": free_port()}
        plan = ServicePlan(LabSpec(), ports, layout, self.secrets, kind, minio=minio_program())
        self._command = plan.command(STORE)
        self._log = layout.folder / "store.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = plan.url("s3")

    def start(self) -> tuple[str, ...]:
        """Start it and set it up for a lab; returns what was done."""
        self._process = launch(self._command, self._log)
        return setup.run(self.url, self.secrets.root, self.secrets.store)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal that ends it, and wait for its end."""
        if self._process is not None:
            end(self._process, number)
            self._process = None

    @property
    def training(self) -> SigningClient:
        """Requests by the training key."""
        return SigningClient(self.url, self.secrets.store)

    @property
    def root(self) -> SigningClient:
        """Requests by the root key."""
        return SigningClient(self.url, self.secrets.root)

    @property
    def store(self) -> ObjectStore:
        """The lab's bucket, as jobs see it."""
        return ObjectStore(self.url, self.secrets.store)


def started(kind: str, folders: pytest.TempPathFactory, until: contextlib.ExitStack) -> S3Server:
    """A server that runs until the end of `until`."""
    server = S3Server(kind, folders.mktemp(kind))
    until.callback(server.kill)
    server.start()
    return server


def launch(command: Command, log: Path) -> subprocess.Popen[bytes]:
    """Start a service as a lab does, in a session of its own; what it says goes to the end of a file."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command.argv,
            env=dict(command.environment),
            cwd=command.cwd,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal that ends it to a service and all that it started, and wait for its end."""
    os.killpg(process.pid, number)
    process.wait(PATIENCE)
