"""Records what a keeper of states gives back, by the keeper's own hand: the proof of a state from memory.

A recipe that keeps the states of its ranks in the memory of other nodes calls `record_given` in the process
that keeps them. Where no ledger is kept, nothing happens.
"""

from __future__ import annotations

import functools
import hashlib
import os

import ray

from raylab_ledger.recorder import Recorder, open_recorder
from raylab_ledger.tensors import in_bytes
from raylab_ledger.train import FLUSH_SECONDS, submission_id


def record_given(run: str, step: int, data: bytes, source: str) -> None:
    """Record that the state after `step` was given to a training of this run, as written by `torch.save`.

    `source` is the name of this node. Waits until that is stored, FLUSH_SECONDS at the longest.
    """
    recorder = _recorder(os.getpid())
    if recorder is not None:
        state = {"step": step, "sha256": hashlib.sha256(data).hexdigest(), "tensors": in_bytes(data)}
        recorder.record("state_given", run=run, attempt=0, source=source, **state)
        recorder.flush(FLUSH_SECONDS)


@functools.lru_cache(maxsize=1)
def _recorder(pid: int) -> Recorder | None:
    """The recorder of this process."""
    return open_recorder(
        submission_id(), "keeper", {"pid": pid, "node_id": ray.get_runtime_context().get_node_id()}
    )
