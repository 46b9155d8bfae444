"""Ray's commands in a container that is no node of the cluster, such as JupyterLab's.

There `ray.init()` needs RAY_ADDRESS to be that of Ray's client (`ray://`), which `ray status`, `ray memory`
and `ray timeline` (ray 2.60) do not understand: they speak to the head itself. Here they find it, and `ray
timeline`, which would join as a driver and needs a node beside it for that, reads the same from the head, as
`ray memory` does. An address that a person gives, and every other command of Ray's, stay as they are.
"""

from __future__ import annotations

import os

from raylab_compat.import_hooks import after_import
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

HEAD_VARIABLE = "RAYLAB_GCS_ADDRESS"
"""Environment variable with host and port of the head, in a container that has no node."""

CLIENT = "ray://"


def commands(scripts: ModuleType) -> None:
    """Change Ray's command line, `ray.scripts.scripts`, in this process."""
    ray: Any = scripts
    find = ray.services.canonicalize_bootstrap_address_or_die

    def head(addr: str | None, temp_dir: str | None = None) -> Any:
        given = addr if addr not in (None, "auto") else os.environ.get("RAY_ADDRESS") or addr
        return find(os.environ[HEAD_VARIABLE] if str(given).startswith(CLIENT) else addr, temp_dir)

    def timeline(address: str | None) -> None:
        from tempfile import gettempdir

        from ray._private.internal_api import get_state_from_address

        folder = os.getcwd() if os.access(".", os.W_OK) else gettempdir()
        now = ray.datetime.today().strftime("%Y-%m-%d_%H-%M-%S")
        path = os.path.join(folder, f"ray-timeline-{now}.json")
        get_state_from_address(head(address)).chrome_tracing_dump(filename=path)
        print(
            f"Trace file written to {path}\nYou can open it with chrome://tracing or https://ui.perfetto.dev"
        )

    ray.services.canonicalize_bootstrap_address_or_die = head
    ray.timeline.callback = timeline


CHANGES = {"ray.scripts.scripts": commands}


def install() -> None:
    """Change Ray's command line in this process, where the lab names the head."""
    if active("outside"):
        after_import(CHANGES)
