"""The gateway of a class: its command and environment, and the list of people that the store reads too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.host.secrets import RAY_FILE
from lab.people.registry import FOLDER
from lab.runtime.ports import LOOPBACK

if TYPE_CHECKING:
    from lab.runtime.local.services import ServicePlan


def people(plan: ServicePlan) -> Path:
    """The folder of the list of people."""
    return plan.layout.folder / FOLDER


def argv(plan: ServicePlan) -> tuple[str, ...]:
    """The gateway's command."""
    listen = ("--listen", f"{LOOPBACK}:{plan.ports['gateway']}")
    return (sys.executable, "-m", "lab.daemons.gateway", *listen, "--people", str(people(plan)))


def variables(plan: ServicePlan) -> dict[str, str]:
    """Its environment. It has no key of the store but those of people."""
    return {
        "RAY_API_SERVER_ADDRESS": plan.url("dashboard"),
        "RAY_AUTH_TOKEN_PATH": str(plan.layout.secrets / RAY_FILE),
        "RAYLAB_QUEUE_ADDRESS": plan.url("queue"),
        "AWS_ENDPOINT_URL": plan.url("s3"),
    }


def store_argv(plan: ServicePlan) -> tuple[str, ...]:
    """Options by which the lab's own store serves the keys of people; none but in a class."""
    return ("--people", str(people(plan))) if plan.spec.classroom else ()
