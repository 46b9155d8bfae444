"""The gateway of a class and its proxy: commands and environments, and the list of people, which the store
reads too."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lab.host.files import HOME_VARIABLE, make_private, write_private
from lab.host.secrets import RAY_FILE
from lab.people.registry import FOLDER
from lab.runtime import proxy
from lab.runtime.ports import LOOPBACK
from lab.topology.address import bracketed

if TYPE_CHECKING:
    from lab.runtime.local.services import ServicePlan


def people(plan: ServicePlan) -> Path:
    return plan.layout.folder / FOLDER


def argv(plan: ServicePlan) -> tuple[str, ...]:
    listen = ("--listen", f"{LOOPBACK}:{plan.ports['gateway']}")
    return (sys.executable, "-m", "lab.daemons.gateway", *listen, "--people", str(people(plan)))


def variables(plan: ServicePlan) -> dict[str, str]:
    """Its environment. It has no key of the store but those of people."""
    return {
        "RAY_API_SERVER_ADDRESS": plan.url("dashboard"),
        "RAY_AUTH_TOKEN_PATH": str(plan.layout.secrets / RAY_FILE),
        "RAYLAB_QUEUE_ADDRESS": plan.url("queue"),
        "AWS_ENDPOINT_URL": plan.url("s3"),
        HOME_VARIABLE: str(plan.layout.folder.parent),
        "RAYLAB_NAME": plan.spec.name,
    }


def page(plan: ServicePlan) -> str:
    """The address of the class's page, as a browser has it; empty in a lab without a class."""
    if not plan.spec.classroom:
        return ""
    return f"{plan.spec.address.url if plan.spec.address else plan.url('gateway')}/class/"


def store_argv(plan: ServicePlan) -> tuple[str, ...]:
    """Options by which the lab's own store serves the keys of people; none but in a class."""
    return ("--people", str(people(plan))) if plan.spec.classroom else ()


def proxy_argv(plan: ServicePlan) -> tuple[str, ...]:
    return (proxy.program(), *proxy.COMMAND, str(plan.layout.folder / proxy.FOLDER / proxy.SETTINGS))


def proxy_base(plan: ServicePlan, base: Mapping[str, str]) -> dict[str, str]:
    """Its environment: it keeps its things in the lab's folder, and asks no other proxy."""
    own = str(plan.layout.folder / proxy.FOLDER)
    kept = {name: value for name, value in base.items() if not name.upper().endswith("_PROXY")}
    return {**kept, "XDG_DATA_HOME": own, "XDG_CONFIG_HOME": own}


def write_proxy(plan: ServicePlan) -> None:
    """Write the proxy's settings, and make the folder of its authority; nothing in a lab without an address.

    Raises SetupError.
    """
    address = plan.spec.address
    if address is None:
        return
    ways = [(route, f"{LOOPBACK}:{plan.ports[route.port]}") for route in proxy.routes(plan.ports)]
    folder = plan.layout.folder / proxy.FOLDER
    settings = proxy.settings(
        address,
        ways,
        listen=f"{bracketed(address.listen)}:{address.port}",
        health=f"{LOOPBACK}:{plan.ports['proxy']}",
        storage=str(folder),
    )
    make_private(folder)
    write_private(folder / proxy.SETTINGS, json.dumps(settings, indent=1))
