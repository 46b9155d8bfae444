"""Keeps the newest state of each worker in the memory of another node: far more often than the store could.

After every few steps one worker, each in its turn, leaves a copy of its state; a thread sends it to the
worker's keeper, an actor on another node, while the training goes on. With data parallelism the states of all
workers are equal after a step, so any keeper that is left has what all need. Where a state is large for the
time of a step, copies are rarer: those of all workers take at most SHARE of the training's time.

The keepers belong to an actor beside the job's script: they live as long as the job, whatever becomes of the
workers. Nothing here is on a disk, so the store stays the place for the day on which all nodes are lost.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
import torch
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

PATIENCE = 2.0
"""Seconds after which a keeper that does not answer is left alone."""

WAIT_SECONDS = 20.0
"""Longest wait for the actor that knows who keeps a state, and for a keeper to start."""

SHARE = 0.05
"""Largest part of the time that goes into copies of all workers' states, and into sending them: while one
worker is busy with its own, the others wait for its gradients."""

LAST = 4
"""Copies whose mean is what the next one is taken to cost."""


class Keeper:
    """Holds the newest state of one worker."""

    def __init__(self) -> None:
        self._step, self._state = -1, b""

    def keep(self, step: int, state: bytes) -> None:
        """Take a state, unless there is a newer one."""
        if step > self._step:
            self._step, self._state = step, state

    def step(self) -> int:
        """Return the step after which the state was copied; -1 while there is none."""
        return self._step

    def state(self, run: str) -> tuple[bytes, str]:
        """Return the state for a training of this run, and this node's name. A lab's ledger has it, too."""
        node = ray.get_runtime_context().get_node_id()
        here = os.environ.get("RAYLAB_SERVICE_NAME") or node[:8]
        with contextlib.suppress(ImportError):  # no lab, no ledger
            from raylab_ledger.memory import record_given

            record_given(run, self._step, self._state, here)
        return self._state, here


class Neighbours:
    """Knows the keeper of every worker."""

    def __init__(self) -> None:
        self._keepers: dict[int, tuple[str, Any]] = {}

    def keeper(self, rank: int, node_id: str) -> Any:
        """Return the keeper of a worker on this node: another node's, and one that answers."""
        node, keeper = self._keepers.get(rank, (node_id, None))
        if node != node_id:
            with contextlib.suppress(RayError):
                ray.get(keeper.step.remote(), timeout=PATIENCE)
                return keeper
        node = neighbour_of(node_id, ray.nodes())
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        made = ray.remote(num_cpus=0)(Keeper).options(scheduling_strategy=there).remote()
        self._keepers[rank] = node, made
        return made

    def newest(self, than: int, run: str) -> tuple[bytes, str] | None:
        """Return the newest state that is newer than that of this step, and the node that keeps it.

        `run` is the name of the run that goes on from it.
        """
        asked = {keeper.step.remote(): keeper for _, keeper in self._keepers.values()}
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=PATIENCE) if asked else ([], [])
        known = []
        for answer in answered:
            with contextlib.suppress(RayError):  # that keeper's node is lost
                known.append((ray.get(answer), len(known), asked[answer]))
        for step, _, keeper in sorted(known, reverse=True):
            with contextlib.suppress(RayError):
                return ray.get(keeper.state.remote(run), timeout=PATIENCE) if step > than else None
        return None


def neighbour_of(node_id: str, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the node after this one, of those that offer CPUs; else any other; else itself."""
    alive = [node for node in nodes if node["Alive"]]
    workers = [node["NodeID"] for node in alive if node["Resources"].get("CPU")]
    others = workers if set(workers) - {node_id} else [node["NodeID"] for node in alive]
    ring = sorted({*others, node_id})
    return ring[(ring.index(node_id) + 1) % len(ring)]


def start_neighbours() -> tuple[Any, str]:
    """Start the actor that knows the keepers on this node; returns it, and its name for the workers.

    It ends when nobody in this process holds it any more.
    """
    name = f"neighbours-{uuid.uuid4().hex[:8]}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    made = ray.remote(num_cpus=0)(Neighbours).options(name=name, scheduling_strategy=here)
    return made.remote(), name


class HandOver:
    """Sends states of one worker to its keeper, one after the other, while the training goes on."""

    def __init__(
        self, find: Callable[[], Any], workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`find` gives a keeper that answers."""
        self.sent_bytes = 0
        self._share = SHARE / workers
        self._find, self._clock, self._keeper = find, clock, None
        self._changed = threading.Condition()
        self._waiting: tuple[int, bytes] | None = None
        self._busy = False
        self._began, self._copying = clock(), 0.0
        self._costs: deque[float] = deque(maxlen=LAST)
        threading.Thread(target=self._run, name="hand-over", daemon=True).start()

    def due(self) -> bool:
        """Tell whether the last state has arrived, and long enough ago for the next one to be cheap."""
        with self._changed:
            cost = sum(self._costs) / max(len(self._costs), 1)
            return not self._busy and self._clock() - self._began >= cost / self._share

    def offer(self, step: int, state: Any) -> None:
        """Copy a state, and leave the copy to be sent; one that still waits is dropped for it."""
        began = self._clock()
        data = packed(state)
        with self._changed:
            self._began, self._copying = began, self._clock() - began
            self._waiting, self._busy = (step, data), True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None)
                (step, data), self._waiting = self._waiting, None
            try:
                self.send(step, data)
            except Exception as error:  # the training comes first; the next state may find another keeper
                self._keeper = None
                print(f"step {step} could not be handed over: {error!r}"[:300], flush=True)
            with self._changed:
                self._busy = self._waiting is not None

    def send(self, step: int, data: bytes) -> None:
        """Send a state, and wait until it is there."""
        if self._keeper is None:
            self._keeper = self._find()
            ray.get(self._keeper.step.remote(), timeout=WAIT_SECONDS)  # it may have to be started
        began = self._clock()
        try:
            ray.get(self._keeper.keep.remote(step, data), timeout=PATIENCE)
        finally:
            with self._changed:
                self._costs.append(self._copying + self._clock() - began)
        self.sent_bytes += len(data)


def packed(state: Any) -> bytes:
    """Return a state as bytes."""
    out = io.BytesIO()
    torch.save(state, out)
    return out.getvalue()


def unpacked(data: bytes) -> Any:
    """Return the state that these bytes hold."""
    return torch.load(io.BytesIO(data))
