"""Job that goes on with a run of another job: RAYLAB_RESUME_RUN=<name of that run>.

Ray Train resumes a run when one of the same name and storage has left its state there. A script that names
its run itself resumes so in any case; one that leaves the name to Ray would get a new one. In a job with this
variable it gets the name of the run that is to go on; further runs without a name get that name with `-2`,
`-3` and so on, so that none goes on with another one's. Only the job's driver names runs: each trial of a
search is a process of its own, which cannot know of the others. Without the variable nothing is changed.
"""

from __future__ import annotations

import os
import sys

from raylab_compat.import_hooks import after_import
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

VARIABLE = "RAYLAB_RESUME_RUN"


def name_runs(module: ModuleType) -> None:
    """Let a RunConfig without a name have that of the run which is to go on."""
    config: Any = module.RunConfig
    settle = config.__post_init__
    named = 0

    def post_init(self: Any) -> None:
        nonlocal named
        if self.name is None and not in_worker():
            named += 1
            self.name = os.environ[VARIABLE] + (f"-{named}" if named > 1 else "")
        settle(self)

    config.__post_init__ = post_init


def in_worker() -> bool:
    """Tell if this is a process of Ray's for actors and tasks, not a driver."""
    worker: Any = sys.modules.get("ray._private.worker")
    return worker is not None and worker.global_worker.mode == worker.WORKER_MODE


CHANGES = {"ray.train.v2.api.config": name_runs}


def install() -> None:
    """Name runs in this process, if its job resumes another one's."""
    if active("resume"):
        after_import(CHANGES)
