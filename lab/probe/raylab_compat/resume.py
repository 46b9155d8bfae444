"""Job that goes on with a run of another job: RAYLAB_RESUME_RUN=<name of that run>.

Ray Train resumes a run when one of the same name and storage has left its state there. A script that names
its run itself resumes so in any case; one that leaves the name to Ray would get a new one. In a job with this
variable it gets the name of the run that is to go on. Without the variable nothing is changed.
"""

from __future__ import annotations

import os

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

    def post_init(self: Any) -> None:
        if self.name is None:
            self.name = os.environ[VARIABLE]
        settle(self)

    config.__post_init__ = post_init


CHANGES = {"ray.train.v2.api.config": name_runs}


def install() -> None:
    """Name runs in this process, if its job resumes another one's."""
    if active("resume"):
        after_import(CHANGES)
