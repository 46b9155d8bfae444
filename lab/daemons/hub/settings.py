"""Settings of the hub, and what a person's server gets: files and plain data, without JupyterHub."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.api.hub import VARIABLE, HubSettings
from lab.api.light import restore
from lab.daemons.gateway.submission import variables
from lab.errors import UsageError
from lab.host.files import make_private
from lab.host.jupyter import CLASS_PAGE, CONTAINERS, terminals
from lab.host.reading import parse_json
from lab.host.workspace import copy
from lab.people.registry import Person, Registry
from lab.runtime.local.processes import MARK
from lab.topology import REGION

KEPT = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""Variables that a person's server keeps of the hub's, and no others."""

WORK = "work"
"""Folder in a person's home with her copy of the workspace, where JupyterLab opens."""

IDLE_SECONDS = 2 * 3600.0
"""Time after which a server that nobody uses is ended."""

MEMORY_BYTES = 8 << 30
"""Most memory of its own that one process of a person's server may ask for."""

FILE_BYTES = 4 << 30
"""Most bytes of one file of hers: a loop that writes fills no disk."""

GREETING = (
    "echo 'pip install puts packages into your home, where they stay, for your notebooks and terminals;'; "
    "echo 'a job gets its packages by --runtime-env. ~ and ~/work are kept.'; "
    'echo "Your home takes $(timeout 5 du -sh ~ | cut -f1); on the disk, which all share, are '
    '$(df -h --output=avail ~ | tail -n 1 | xargs) free."; unset PROMPT_COMMAND'
)
"""What bash does before a terminal's first prompt, where each person has a user of her own."""

TOGETHER = "4G"
"""Most memory that all of them may take together, if the teacher's file does not say otherwise."""

GUESS = re.compile(r"Failed login for |(?:403|429) (?:GET|POST) /hub/(?:login|invite)\b")
"""Beginning of what JupyterHub logs of each wrong token; the authenticator says how many there were."""


class Guesses(logging.Filter):
    """Keeps the lines of wrong tokens out of the log, which would grow with each."""

    def filter(self, record: logging.LogRecord) -> bool:
        return GUESS.match(record.getMessage()) is None


def home_of(settings: HubSettings, person: str) -> Path:
    """The home of a person."""
    return Path(settings.homes) / person


def mark_of(settings: HubSettings, person: str) -> str:
    """The mark of all processes of a person's server."""
    return f"{settings.mark}-{person}"


def from_environment(environ: Mapping[str, str]) -> HubSettings:
    """The settings that the hub was started with. Raises UsageError."""
    try:
        return restore(HubSettings, parse_json(environ.get(VARIABLE, "")))
    except ValueError as error:
        raise UsageError(f"{VARIABLE}: {error}", "labctl starts the hub: labctl up --class --hub") from error


def server_environment(settings: HubSettings, person: Person, token: str, path: str) -> dict[str, str]:
    """What a person's server gets beside JupyterHub's own: her tokens and keys, and nobody else's.

    `token` is her server's for the gateway, `path` the PATH of the hub.
    """
    home = home_of(settings, person.name)
    path = os.pathsep.join((str(Path(sys.executable).parent), path, str(home / ".local" / "bin")))
    return {
        **variables(person),
        "AWS_ENDPOINT_URL": settings.store,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "RAY_ADDRESS": settings.gateway,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "RAYLAB_RUNTIME": "class",
        "RAYLAB_NAME": settings.lab,
        "RAYLAB_DATA": settings.data,
        CLASS_PAGE: settings.page,
        "RAYLAB_WORKSPACE": str(home / WORK),
        **({"PROMPT_COMMAND": GREETING, CONTAINERS: "1"} if settings.accounts else {}),
        **terminals(Path(settings.tools), path),
        "PYTHONPATH": settings.modules,
        "JUPYTER_CONFIG_PATH": settings.jupyter,
        "HOME": str(home),
        "USER": person.name,
        "LOGNAME": person.name,
        "SHELL": "/bin/bash",
        MARK: mark_of(settings, person.name),
    }


def stays(registry: Registry, name: str, state: Mapping[str, float] | None) -> bool:
    """Tell if a person is in the class, with the token with which `state` began."""
    person = registry.people().get(name)
    return person is not None and not person.leaving and (state or {}).get("token_at") == person.token_at


def keeps_server(registry: Registry, name: str, state: Mapping[str, float]) -> bool:
    """The same, and that her server was not ended by the class's page, which takes its token."""
    return stays(registry, name, state) and registry.get(name).has_server


def furnish(home: Path, workspace: Path) -> None:
    """Make a person's home, that only its owner may enter, with a copy of the workspace the first time.

    Raises OSError, SetupError.
    """
    make_private(home).chmod(0o700)
    copy(workspace, home / WORK)
