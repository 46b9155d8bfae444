"""The controller of the queues, for the faults that need it."""

from __future__ import annotations

from lab.cluster.queues import Queues
from lab.faults import Scene


def queues_of(scene: Scene) -> Queues:
    """Return the controller; the scene of a revert in another process has none."""
    if scene.queues is not None:
        return scene.queues
    endpoints = scene.runtime.endpoints()
    return Queues(endpoints.queue, endpoints.ray_token)
