"""A broken attempt does not end the training: RAY_TRAIN_CALLBACKS=...,raylab_patches.teardown.Teardown

Before a new attempt Ray Train (2.60) shuts down the process groups of the old one, in order, and tolerates
a rank that has crashed. A rank that Ray itself has killed because its node ran out of memory raises another
error there, `OutOfMemoryError`, which ends the training although `FailureConfig` allows another attempt. Here
such an error counts as what it is: one more sign that the old attempt is dead. The classes used here are
internal to Ray.
"""

from __future__ import annotations

import functools
from typing import Any

from ray.exceptions import OutOfMemoryError
from ray.train.v2._internal.execution.callback import ControllerCallback

from raylab_ledger.rank import quietly
from raylab_switches import active


class Teardown(ControllerCallback):
    """Changes how the controller of a run shuts process groups down; nothing else."""

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        if not active("teardown"):
            return
        from ray.train.v2._internal.callbacks.backend_setup import BackendSetupCallback

        bear(BackendSetupCallback)


def bear(callback_class: Any) -> None:
    """Let this callback's shutdown tolerate ranks that Ray has killed for want of memory."""
    shut_down = callback_class.before_execution_group_shutdown

    @functools.wraps(shut_down)
    def before_execution_group_shutdown(self: Any, execution_group: Any) -> None:
        try:
            shut_down(self, execution_group)
        except OutOfMemoryError:
            print(
                "raylab: a rank was killed for want of memory; its process group stays as it is", flush=True
            )

    callback_class.before_execution_group_shutdown = before_execution_group_shutdown
