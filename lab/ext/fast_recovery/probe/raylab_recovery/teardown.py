"""A training ends when it should: RAY_TRAIN_CALLBACKS=...,raylab_recovery.teardown.Teardown

Before a new attempt Ray Train (2.60) shuts down the process groups of the old one, in order, and tolerates
a rank that has crashed. A rank that Ray itself has killed because its node ran out of memory raises another
error there, `OutOfMemoryError`, which ends the training although `FailureConfig` allows another attempt. Here
such an error counts as what it is: one more sign that the old attempt is dead.

Of an attempt that fails while it starts it clears away what there is of it, unless that is a whole group of
ranks: one that is lost while the process group is set up leaves the others, which nobody owns any more, with
their GPUs and CPUs, and the next attempt waits for these for ever. Here the whole group is cleared away, too.

A controller whose owner has ended, as a trial that Tune's scheduler stops, is dead for Ray, and so are its
ranks; its process lives on for a moment, takes them for lost, and begins another attempt. What it reserves
then is nobody's: Ray frees what an actor has reserved when the actor dies, and that was before. It stays for
as long as the cluster lives, in the jobs after it too. So here a controller that Ray has given up ends
instead, as does that of a node that was frozen and has come back. The classes used here are internal to Ray.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from ray.exceptions import OutOfMemoryError
from ray.train.v2._internal.execution.callback import ControllerCallback, WorkerGroupCallback

from raylab_ledger.rank import quietly
from raylab_switches import active


class Teardown(ControllerCallback, WorkerGroupCallback):
    """Changes how the controller of a run shuts process groups down, and when it begins no more attempts."""

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        if not active("teardown"):
            return
        from ray.train.v2._internal.callbacks.backend_setup import BackendSetupCallback
        from ray.train.v2._internal.execution.worker_group import WorkerGroup

        bear(BackendSetupCallback)
        clear(WorkerGroup)

    @quietly
    def before_worker_group_start(self, worker_group_context: Any) -> None:
        if active("teardown"):
            end_if_given_up()


def end_if_given_up(state: Callable[[], str] | None = None, end: Callable[[int], object] = os._exit) -> None:
    """End this process if the actor in it is dead for Ray."""
    if (state or state_of_this_actor)() == "DEAD":
        print("raylab: Ray has given up this run: it begins no further attempt", flush=True)
        end(0)


def state_of_this_actor() -> str:
    """The state of this process' actor as Ray's head has it; empty where it knows none."""
    import ray
    from ray._private import state

    actor_id = ray.get_runtime_context().get_actor_id()
    return str(state.actors(actor_id).get("State", "")) if actor_id else ""


def clear(group_class: Any) -> None:
    """Let a group of ranks that fails to start, although it is whole, free what it holds."""
    start = group_class._start

    @functools.wraps(start)
    def _start(self: Any) -> None:
        try:
            start(self)
        except Exception:
            if self.has_started():
                print("raylab: the ranks of an attempt that failed to start are ended", flush=True)
                self._worker_group_state.shutdown()
            raise

    group_class._start = _start


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
