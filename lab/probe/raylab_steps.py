"""Records the steps of ranks, compactly: of a training that goes on when one of them is lost (torchft).

A rank of `torchft.Manager` asks before each step who takes part, and commits it together with them. What is
recorded of that, as events of the ledger:

- `steps`: consecutive steps that were committed. `first` is the number of the first, `began` its time in
  seconds since the epoch, `ms` the milliseconds from each to the next, `ranks` how many took part.
- `step_discarded`: step `step` was not committed, and `why`: a rank was lost on the way.
- `healed`: the rank was given the state of step `step` by `source`.
- `state`: `sha256` of all that a neighbour would be given (weights, optimizer), after step `step`.

A state is hashed after the first step that a new number of ranks commits together, and as the manager is
shut down: at these steps all ranks have the same. Several steps make one event, so that an hour of ten steps
a second is less than a megabyte: an event holds at most LONGEST_SECONDS, less right after a change.
The names used here are torchft's own (torchft-nightly 2026.10); a script needs no change. Of other trainings
`steps` is recorded where the job asks for it (EACH_STEP), with the numbers that the optimizer counts.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from raylab_compat.import_hooks import after_import

Record = Callable[..., None]

LONGEST_SECONDS = 5.0
"""Longest time that one event holds; what a rank that is killed had not written is lost."""

EACH_STEP = "RAYLAB_EACH_STEP"
"""Environment variable of a job: record the steps of an ordinary training, too, as `labctl ladder` wants."""

SHORTEST_SECONDS = 0.25
"""The same of the first event after a change; it doubles from one to the next."""


class Steps:
    """Puts consecutive steps into one event."""

    def __init__(self, record: Record, clock: Callable[[], float] = time.time) -> None:
        self._record, self._clock = record, clock
        self._lock = threading.RLock()  # a process that shuts down flushes in another thread
        self._first, self._ranks, self._began, self._last = 0, 0, 0.0, 0.0
        self._ms: list[int] = []
        self._longest = SHORTEST_SECONDS

    def committed(self, step: int, ranks: int) -> bool:
        """A step was committed by so many ranks; returns whether it is the first of a new number of them."""
        with self._lock:
            return self._committed(step, ranks)

    def _committed(self, step: int, ranks: int) -> bool:
        now, last = self._clock(), self._first + len(self._ms)
        changed = ranks != self._ranks
        if self._first and (changed or step != last + 1):
            self.flush()
            self._longest = SHORTEST_SECONDS
        if not self._first:
            self._first, self._ranks, self._began = step, ranks, now
        else:
            self._ms.append(round((now - self._last) * 1000))
        self._last = self._began + sum(self._ms) / 1000  # what was rounded away does not add up
        if now - self._began >= self._longest:
            self.flush()
            self._longest = min(2 * self._longest, LONGEST_SECONDS)
        return changed

    def flush(self) -> None:
        with self._lock:
            if self._first:
                self._record("steps", first=self._first, began=self._began, ms=self._ms, ranks=self._ranks)
            self._first, self._ms = 0, []


class Client:
    """torchft's client of its manager, which keeps the last quorum that it was told of."""

    def __init__(self, client: Any) -> None:
        self._raylab_client, self.raylab_quorum = client, None

    def _quorum(self, *args: Any, **kwargs: Any) -> Any:
        self.raylab_quorum = self._raylab_client._quorum(*args, **kwargs)
        return self.raylab_quorum

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raylab_client, name)


def source(quorum: Any) -> str:
    """Name of the replica group that a rank is healed by, such as `rank0`; empty where it is not known."""
    try:
        return str(quorum.replica_ids[quorum.recover_src_replica_rank]).partition(":")[0]
    except (AttributeError, IndexError, TypeError):
        return ""


def watch_steps(record: Record) -> None:
    """Record the steps of every manager in this process, with `record` as of a Recorder."""
    after_import(
        {
            "torchft.manager": lambda module: watch_manager(module.Manager, record),
            "torchft.optim": lambda module: watch_optimizer(module.OptimizerWrapper),
        }
    )


def watch_manager(manager: Any, record: Record) -> None:
    """Let this class record what it commits, discards and is given; once is enough."""
    if hasattr(manager.should_commit, "raylab"):
        return
    init, should_commit, shutdown = manager.__init__, manager.should_commit, manager.shutdown
    apply = manager._apply_pending_state_dict

    @functools.wraps(init)
    def watched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.raylab_steps, self.raylab_due = Steps(record), False
        self._client = Client(self._client)

    @functools.wraps(should_commit)
    def watched_should_commit(self: Any, *args: Any, **kwargs: Any) -> Any:
        committed = should_commit(self, *args, **kwargs)
        with suppress(Exception):  # whatever a newer torchft calls it: the training comes first
            if committed:
                self.raylab_due |= self.raylab_steps.committed(self.current_step(), self.num_participants())
            else:
                self.raylab_steps.flush()
                record("step_discarded", step=self.current_step() + 1, why=repr(self.errored())[:300])
        return committed

    @functools.wraps(apply)
    def watched_apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = apply(self, *args, **kwargs)
        quorum = getattr(self._client, "raylab_quorum", None)
        record("healed", step=self.current_step(), source=source(quorum))
        return result

    @functools.wraps(shutdown)
    def watched_shutdown(self: Any, *args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):
            self.raylab_steps.flush()
            record_state(self, record)
        return shutdown(self, *args, **kwargs)

    watched_should_commit.raylab = True  # type: ignore[attr-defined]
    manager.__init__, manager.should_commit = watched_init, watched_should_commit
    manager._apply_pending_state_dict, manager.shutdown = watched_apply, watched_shutdown
    manager.raylab_record = staticmethod(record)


def watch_optimizer(wrapper: Any) -> None:
    """Let this class record the state after the first step of a new number of ranks; once is enough."""
    step = wrapper.step
    if hasattr(step, "raylab"):
        return

    @functools.wraps(step)
    def watched_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = step(self, *args, **kwargs)
        with suppress(Exception):
            if self.manager.raylab_due:
                self.manager.raylab_due = False
                record_state(self.manager, self.manager.raylab_record)
        return result

    watched_step.raylab = True  # type: ignore[attr-defined]
    wrapper.step = watched_step


def record_state(manager: Any, record: Record) -> None:
    """Record the SHA-256 of the state that a neighbour would be given now."""
    state = {name: give() for name, give in manager._user_state_dicts.items()}
    record("state", step=manager.current_step(), sha256=state_sha256(state))


def state_sha256(state: Any) -> str:
    """SHA-256 of a nested state of tensors and plain values: equal only if every bit is."""
    digest = hashlib.sha256()
    _add(digest, state)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            digest.update(f"{key}=".encode())
            _add(digest, value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            _add(digest, item)
    elif hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())
    else:
        digest.update(f"{value!r};".encode())
