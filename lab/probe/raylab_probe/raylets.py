"""Asks the raylets of a cluster for idle worker processes, and keeps count of them in Ray's key-value store.

`PrestartWorkers` always starts another process, so somebody has to know which are there: each says so itself
when it is ready, and Ray says which of those still live (see `warm.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from raylab_probe import warm

KEEP_SECONDS = 24 * 3600
"""How long a raylet keeps an idle process at least; it ends it with the job."""

CALL_SECONDS = 3.0
"""Deadline for an answer of a raylet: one that is frozen gives none."""

CLAIM_SECONDS = 60.0
"""How long a process may take to become ready before it is asked for again."""


Process = tuple[str, int]
"""A process of the cluster: the id of its node, in hex, and its process id there."""


class Raylets:
    """The raylets of the cluster that this process belongs to."""

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Ray's list of nodes."""
        import ray

        found: Sequence[Mapping[str, Any]] = ray.nodes()
        return found

    def pids(self, node: Mapping[str, Any]) -> frozenset[int]:
        """The processes that Ray has on this node, of every job. Raises grpc.RpcError."""
        from ray.core.generated import node_manager_pb2

        reply = self._call(node, "GetWorkerPIDs", node_manager_pb2.GetWorkerPIDsRequest())
        return frozenset(reply.pids)

    def busy(self, job: str) -> frozenset[Process]:
        """The processes that are actors of `job` (in hex): they stand by no longer."""
        import ray
        from ray._private.state import actors

        found = actors(job_id=ray.JobID.from_hex(job), actor_state_name="ALIVE").values()
        return frozenset((actor["Address"]["NodeID"], actor["Pid"]) for actor in found)

    def prestart(self, node: Mapping[str, Any], job: str, environment: str, count: int) -> None:
        """Have so many processes started for `job` (hex) in this runtime environment, Ray's JSON of it.

        Raises grpc.RpcError.
        """
        from ray._private.utils import get_runtime_env_info
        from ray.core.generated import common_pb2, node_manager_pb2
        from ray.runtime_env import RuntimeEnv

        info = get_runtime_env_info(RuntimeEnv.deserialize(environment or "{}"))
        info.serialized_runtime_env = environment  # to the letter: Ray compares its hash
        request = node_manager_pb2.PrestartWorkersRequest(
            language=common_pb2.Language.PYTHON,
            job_id=bytes.fromhex(job),
            runtime_env_info=info,
            keep_alive_duration_secs=KEEP_SECONDS,
            num_workers=count,
        )
        self._call(node, "PrestartWorkers", request)

    def _call(self, node: Mapping[str, Any], method: str, request: Any) -> Any:
        from ray._private.grpc_utils import init_grpc_channel  # with the token of the cluster
        from ray.core.generated import node_manager_pb2_grpc

        channel = init_grpc_channel(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}")
        try:
            stub = node_manager_pb2_grpc.NodeManagerServiceStub(channel)
            return getattr(stub, method)(request, timeout=CALL_SECONDS)
        finally:
            channel.close()


class Store:
    """Ray's key-value store, in the namespace of standby processes."""

    def get(self, key: bytes) -> bytes | None:
        from ray.experimental import internal_kv

        found: bytes | None = internal_kv._internal_kv_get(key, namespace=warm.NAMESPACE)
        return found

    def put(self, key: bytes, value: bytes) -> None:
        from ray.experimental import internal_kv

        internal_kv._internal_kv_put(key, value, namespace=warm.NAMESPACE)

    def add(self, key: bytes, value: bytes) -> bool:
        """Put it unless there is one; whether it was put."""
        from ray.experimental import internal_kv

        return not internal_kv._internal_kv_put(key, value, overwrite=False, namespace=warm.NAMESPACE)

    def delete(self, key: bytes) -> None:
        from ray.experimental import internal_kv

        internal_kv._internal_kv_del(key, namespace=warm.NAMESPACE)

    def keys(self, prefix: bytes) -> Sequence[bytes]:
        from ray.experimental import internal_kv

        found: Sequence[bytes] = internal_kv._internal_kv_list(prefix, namespace=warm.NAMESPACE)
        return found


class Claims:
    """Who has asked for processes at a place, and which of them are ready.

    Several runs of a job, as under Ray Tune, can use the same processes: only one of them asks.
    """

    def __init__(self, store: Any = None, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store or Store(), clock

    def ready(self, where: str, living: Collection[int], busy: Collection[int]) -> int:
        """How many processes stand by at this place. Those that live no more are forgotten."""
        count = 0
        for key in self._store.keys(warm.ready_key(where)):
            pid = int(key.rpartition(b"/")[2])
            if pid not in living:
                self._store.delete(key)
            elif pid not in busy:
                count += 1
        return count

    def claim(self, where: str, modules: Sequence[str]) -> bool:
        """Whether the caller may ask for processes at this place, which will import these modules."""
        key, now = _claim_key(where), self._clock()
        if not self._store.add(key, repr(now).encode()):
            claimed = float(self._store.get(key) or 0.0)
            if now - claimed < CLAIM_SECONDS:
                return False
            self._store.put(key, repr(now).encode())
        self._store.put(warm.modules_key(where), warm.packed(modules))
        return True

    def settle(self, where: str) -> None:
        """All that were asked for at this place are ready: the next that is missing may be asked for."""
        self._store.delete(_claim_key(where))

    def forget(self, where: str) -> None:
        """Nothing is asked for at this place any more."""
        self._store.delete(warm.modules_key(where))
        self.settle(where)


def _claim_key(where: str) -> bytes:
    return f"claim/{where}".encode()
