"""Elastic training shrinks and grows within seconds: RAY_TRAIN_CALLBACKS=...,raylab_recovery.elastic.Elastic

With `ScalingConfig(num_workers=(least, most))` Ray Train (2.60) asks the cluster's AutoscalingCoordinator how
many ranks there is room for. That looks at the nodes every 20 s: after the loss of a node it still counts it,
and the controller waits a minute for a placement group that cannot be placed. Here the controller asks it to
count again each time, and leaves out nodes that refuse a connection: they are dead, although Ray may need
another second to say so. A run with a fixed number of ranks is left alone. The classes used here are internal
to Ray.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ray.train.v2._internal.execution.callback import ControllerCallback

from raylab_ledger.rank import quietly
from raylab_patches import connects
from raylab_switches import active

ANSWER_SECONDS = 5.0
"""Timeout for the coordinator; Ray's own."""

INTERVAL_SECONDS = 0.2
"""Pause between two polls while training waits for room."""

Reserved = Mapping[str, Mapping[str, float]]
"""Node id -> what is reserved there."""


class Elastic(ControllerCallback):
    """Changes the policy of an elastic run in its controller; nothing else."""

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        if not (active("elastic") and train_run_context.scaling_config.elasticity_enabled):
            return
        from ray.train.v2._internal.execution.scaling_policy.elastic import ElasticScalingPolicy

        look_again(ElasticScalingPolicy, _ask, _nodes)


def look_again(
    policy_class: Any,
    ask: Callable[[Any], Reserved],
    nodes: Callable[[], Iterable[Mapping[str, Any]]],
    answers: Callable[[str, int], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Let policies of this class ask each time, and count only nodes that answer.

    `ask` is given the policy; `nodes` are as `ray.nodes()` lists them. When nothing answers, the policy
    decides nothing, as Ray's own does.
    """
    takes = answers or connects

    def _get_reserved_resources(self: Any) -> Reserved | None:
        last: tuple[float, Reserved | None] = getattr(self, "raylab_looked", (float("-inf"), None))
        if clock() - last[0] < INTERVAL_SECONDS:
            return last[1]
        usable: Reserved | None = None
        try:
            reserved = ask(self)
            dead = {
                row["NodeID"]
                for row in nodes()
                if row["NodeID"] in reserved
                and not (row["Alive"] and takes(row["NodeManagerAddress"], row["NodeManagerPort"]))
            }
            usable = {node: resources for node, resources in reserved.items() if node not in dead}
        except Exception as error:  # whatever Ray raises: the controller tries again
            print(f"raylab: cannot find out how many ranks there is room for: {error!r}", flush=True)
        self.raylab_looked = (clock(), usable)
        return usable

    policy_class._get_reserved_resources = _get_reserved_resources


def _ask(policy: Any) -> Reserved:
    import ray

    coordinator = policy._autoscaling_coordinator
    answer = coordinator.get_reserved_resources.remote(policy._requester_id, recompute=True)
    reserved: Reserved = ray.get(answer, timeout=ANSWER_SECONDS)
    return reserved


def _nodes() -> list[dict[str, Any]]:
    import ray

    return list(ray.nodes())
