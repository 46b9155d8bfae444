"""How a person who is here by ssh opens the lab's pages on the machine that she sits at."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from lab.services import GATEWAY, GRAFANA, HEAD, HUB, JUPYTER, STORE
from lab.topology import ServiceStatus

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
