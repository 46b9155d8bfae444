"""How a person uses the lab from elsewhere: its pages from the machine that she sits at, Ray from a shell."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from lab.services import GATEWAY, GRAFANA, HEAD, HUB, JUPYTER, STORE
from lab.topology import Endpoints, ServiceStatus

PAGES = (HEAD, JUPYTER, STORE, GRAFANA, GATEWAY, HUB)
"""Services with pages that people open."""


def tunnel(services: Iterable[ServiceStatus], environ: Mapping[str, str]) -> tuple[str, ...]:
    """What to type on one's own machine to open the same addresses in its browser: two lines.

    Nothing where ssh did not start this shell: its SSH_CONNECTION is
    `client port server port` (ssh(1), ENVIRONMENT).
    """
    connection = environ.get("SSH_CONNECTION", "").split()
    ports = [urlsplit(row.url).port for row in services if row.service in PAGES]
    if len(connection) != 4 or not any(ports):
        return ()
    forwards = " ".join(f"-L {port}:127.0.0.1:{port}" for port in ports if port)
    port = "" if connection[3] == "22" else f" -p {connection[3]}"
    return (
        "to open these pages on the machine that you sit at, type there, and leave it open:",
        f"  ssh {forwards}{port} {getpass.getuser()}@{connection[2]}",
    )


def ray_commands(endpoints: Endpoints | None) -> dict[str, str]:
    """What a shell of this machine has to say for Ray's own clients to reach the lab; empty in a class."""
    if endpoints is None or not endpoints.ray_token_file:
        return {}
    folder = Path(sys.executable).parent if find_spec("ray") else Path()
    token = f"RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={shlex.quote(endpoints.ray_token_file)}"
    python, ray = (f"{token} {shlex.quote(str(folder / program))}" for program in ("python", "ray"))
    job = f"job submit --address {endpoints.dashboard} --working-dir . -- python train.py"
    submit = {"ray_job_submit": f"{ray} {job}"}
    if not endpoints.ray_client:
        return submit
    return {"ray_init": f"{python} -c 'import ray; ray.init(\"{endpoints.ray_client}\")'", **submit}
