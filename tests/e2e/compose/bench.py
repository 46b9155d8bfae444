"""A lab of containers, looked at with docker itself: labctl must not be its own witness."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from lab.runtime.compose.runtime import ComposeRuntime
from tests.e2e.harness import PATIENCE, Shell

UP_SECONDS = 400.0
"""Patience for an `up` that takes half a minute on 2 idle cores."""

LABEL = "com.docker.compose.project"

PIDS = (
    "import os, sys; from pathlib import Path\n"
    "for path in Path('/proc').glob('[0-9]*'):\n"
    "    words = (path / 'cmdline').read_bytes().decode().split('\\0') if path.exists() else []\n"
    "    if {*sys.argv[1:]} <= {*words} and path.name != str(os.getpid()): print(path.name)"
)
"""Prints the processes that have all of these words among their arguments."""


def docker(*arguments: str, code: int | None = 0, timeout: float = PATIENCE) -> str:
    """What `docker ARGUMENTS` prints; its exit code must be `code`, unless that is None."""
    argv = ("docker", *arguments)
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    assert code is None or ended.returncode == code, f"{argv}: {ended.returncode}\n{ended.stderr}"
    return ended.stdout


class ContainerBench(Shell):
    """One lab of the compose runtime."""

    kind = "compose"

    @contextlib.contextmanager
    def up(self, *arguments: str) -> Iterator[None]:
        """Start the lab with these arguments of labctl for as long as the block lasts; remove it then."""
        try:
            self.labctl(*arguments, timeout=UP_SECONDS)
            yield
        finally:
            self.remove()

    def runtime(self) -> ComposeRuntime:
        return ComposeRuntime(self.name, self.folder)

    @property
    def project(self) -> str:
        """Its Compose project."""
        return f"raylab-{self.name}"

    def containers(self) -> dict[str, dict[str, Any]]:
        """What `docker inspect` says of every container of the lab, by service."""
        ids = docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self.project}").split()
        inspected = json.loads(docker("inspect", *ids)) if ids else []
        return {
            container["Config"]["Labels"]["com.docker.compose.service"]: container for container in inspected
        }

    def container(self, service: str) -> str:
        """The id of a service's container."""
        return str(self.containers()[service]["Id"])

    def leftovers(self) -> list[str]:
        """Containers and networks of the lab; volumes are meant to stay."""
        only = ("--filter", f"label={LABEL}={self.project}")
        containers = docker("ps", "--all", *only, "--format", "container {{.Names}}")
        networks = docker("network", "ls", *only, "--format", "network {{.Name}}")
        return [*containers.splitlines(), *networks.splitlines()]

    def volumes(self) -> list[str]:
        """The lab's volumes."""
        only = ("--filter", f"label={LABEL}={self.project}")
        return docker("volume", "ls", "--quiet", *only).split()

    def pids(self, service: str, *words: str) -> list[str]:
        """The processes in a service's container that have all of these words among their arguments."""
        return self.exec(service, "python", "-c", PIDS, *words).split()

    def owner(self, service: str, pid: str) -> str:
        """The number of the user of a process in a service's container."""
        return self.exec(service, "stat", "-c", "%u", f"/proc/{pid}").strip()

    def exec(self, service: str, *argv: str, code: int | None = 0) -> str:
        """What a command prints inside a service."""
        return docker("exec", self.container(service), *argv, code=code)
