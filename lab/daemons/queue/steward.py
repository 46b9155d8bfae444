"""Carries out what health means: moves jobs that have to go, opens and closes nodes, tells the quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lab.api.health import EVICT, WARN, DeviceView
from lab.cluster.api import Node
from lab.daemons.queue import resets
from lab.daemons.queue.controller import Controller, Draft
from lab.daemons.queue.model import RUNNING
from lab.daemons.queue.rayside import Cluster
from lab.daemons.queue.steering import ClosedNodes, Look, amounts, capacity, closed, ill, lost, sizes
from lab.errors import LabError

CORDON_SECONDS, LOOK_SECONDS, NODES_SECONDS = 0.2, 0.5, 2.0
"""Time between two closings of a node, two looks at what runs where, two at the nodes while all are open."""

TOLD = (EVICT, WARN)
"""States that are recorded among the events."""

States = Callable[[], Sequence[DeviceView]]
"""The state of every device now. It is called under the controller's lock."""

Task = tuple[str, float, Callable[[], object], bool]
"""A look in the background: its kind, seconds between two, what it does, and True when it is wanted now."""


class Steward:
    """Steers the jobs and nodes of one controller by the health of its devices."""

    def __init__(
        self, controller: Controller, ray: Cluster, states: States, say: Callable[[str], None]
    ) -> None:
        self._controller, self._ray, self._states, self._say = controller, ray, states, say
        self._cordon = ClosedNodes(ray.resize)
        self._nodes: tuple[Node, ...] = ()
        self._look = Look()
        self._shut: frozenset[str] = frozenset()
        self._seen: dict[tuple[str, str], DeviceView] = {}
        self._refused = ""

    @property
    def knows_nodes(self) -> bool:
        """True while Ray shows any: else nothing is admitted, as nobody knows what can run."""
        return bool(self._nodes)

    @property
    def sick(self) -> bool:
        """True while a device takes no work."""
        return any(not health.takes_work for health in self._states())

    def steer(self, draft: Draft) -> None:
        """Let the quotas know what is lost, and record whose health has changed."""
        self._record(draft)
        setup = self._controller.setup
        gone = lost(self._states(), self._nodes, setup, self._controller.resource)
        nodes = amounts(self._nodes, self._controller.resource)
        if (gone, nodes) != (setup.lost, setup.nodes):
            draft.note(draft.engine.apply(replace(setup, lost=gone, nodes=nodes), draft.now))

    def take(self, draft: Draft, kind: str, value: Any) -> bool:
        """Take up what a look showed; False for one that is not of this."""
        if kind not in ("nodes", "look", "cordon"):
            return False
        refused = value.message if isinstance(value, LabError) else ""
        if kind == "cordon":
            if refused and refused != self._refused:
                self._say(f"nodes are not all open or closed as they should be: {refused}")
            elif not refused:
                self._closed(draft, value)
            self._refused = refused
        elif not refused and kind == "nodes":
            self._nodes = value
            gpu = self._controller.resource
            self._controller.capacity = capacity(amounts(value, gpu), gpu)
        elif not refused:
            self._look = value
            self._move(draft)
        return True

    def _record(self, draft: Draft) -> None:
        """Tell each device that is not healthy any more, or again."""
        now = {(health.node, health.device): health for health in self._states()}
        for key, health in now.items():
            before = self._seen[key].state if key in self._seen else ""
            bad = health.state in TOLD
            if before != health.state and (bad or before in TOLD):
                why = f": {health.reason} {health.message}".rstrip() if bad else " again"
                message = f"{health.node} {health.device} is {health.state}{why}"
                draft.tell("Health", "", health.state, message)
        self._seen = now

    def _closed(self, draft: Draft, shut: frozenset[str]) -> None:
        """Record which nodes take nothing new from now on, and which do again."""
        for service in sorted(shut - self._shut):
            draft.tell("NodeClosed", "", "Unhealthy", f"{service} takes no new work")
        for service in sorted(self._shut - shut):
            draft.tell("NodeOpened", "", "Healthy", f"{service} takes new work again")
        self._shut = shut

    def _move(self, draft: Draft) -> None:
        """Reset the jobs that run where a check says EVICT."""
        states = self._states()
        for key in sorted(self._controller.holding):
            record = self._controller.records[key]
            attempt = record.attempt
            if record.phase != RUNNING or attempt is None:
                continue
            worst = ill(states, self._look.gpus.get(attempt.submission_id, {}))
            if worst is not None:
                message = f"{worst.node} {worst.device} is {worst.state}: {worst.reason} {worst.message}"
                resets.order(draft, record, resets.UNHEALTHY, message.strip(), charged=False)

    def tasks(self) -> tuple[Task, ...]:
        """Looks and deeds in the background."""
        with self._controller.lock:
            states = self._states()
            cordon = self._cordon_task(states) if self._nodes else None
        places = {node.service for node in self._nodes if node.resources.get("CPU")}
        worst = {health.state for health in states if health.node in places}
        shut = self._shut
        pause = LOOK_SECONDS if shut else NODES_SECONDS
        tasks: tuple[Task, ...] = (
            ("nodes", pause, self._ray.nodes, True),
            ("look", LOOK_SECONDS, lambda: self._ray.look(shut), bool(worst & {EVICT, WARN})),
        )
        return tasks if cordon is None else (("cordon", CORDON_SECONDS, cordon, True), *tasks)

    def _cordon_task(self, states: Sequence[DeviceView]) -> Callable[[], object] | None:
        """The task that opens and closes nodes; None while nothing is to be done about them."""
        services = [node.service for node in self._nodes if node.alive and node.resources.get("CPU")]
        shut = closed(states, services, self._look.waits)
        wanted = sizes(self._nodes, shut)
        if not shut and not self._shut and self._cordon.all_open(wanted):
            return None

        def task() -> frozenset[str]:
            self._cordon.apply(wanted)
            return shut

        return task
