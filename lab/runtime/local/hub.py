"""JupyterHub of a class: its command, and what it is told of the lab."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING

from lab.api.hub import DROP_IN, VARIABLE, HubSettings, homes
from lab.host.files import ROOT
from lab.host.workspace import workspace
from lab.runtime.local import classroom
from lab.runtime.ports import LOOPBACK
from lab.services import HUB

if TYPE_CHECKING:
    from lab.runtime.local.services import ServicePlan

CONFIGURATION = ROOT / "lab" / "daemons" / "hub" / "jupyterhub_config.py"

JUPYTER_SETTINGS = ROOT / "compose" / "jupyter"
"""Settings of JupyterLab that every runtime uses."""

NOTE = (
    "hub: all servers run as the user of labctl: whoever runs code in one can read the files of the others "
    "and the lab's secrets; in containers each person has a Unix user: --runtime compose"
)


def argv() -> tuple[str, ...]:
    return (sys.executable, "-m", "jupyterhub", "--config", str(CONFIGURATION))


def variables(plan: ServicePlan) -> dict[str, str]:
    """Its environment, in which there is no secret of the lab."""
    settings = HubSettings(
        lab=plan.spec.name,
        folder=str(plan.layout.hub),
        homes=str(homes(plan.layout.folder)),
        tools=str(plan.layout.hub),
        drop_in=str(plan.layout.hub / DROP_IN),
        people=str(classroom.people(plan)),
        mark=plan.layout.mark(HUB),
        host=LOOPBACK,
        port=plan.ports["hub"],
        api_port=plan.ports["hub-api"],
        gateway=plan.url("gateway"),
        store=plan.url("s3"),
        workspace=str(workspace()),
        modules=str(ROOT),
        jupyter=str(JUPYTER_SETTINGS),
        data=str(plan.layout.data),
        page=classroom.page(plan),
    )
    return {"PYTHONPATH": str(ROOT), VARIABLE: json.dumps(dataclasses.asdict(settings))}
