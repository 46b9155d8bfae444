"""Steps with torchft ask who takes part less often: RAY_TRAIN_CALLBACKS=...,raylab_patches.quorums.Quorums

A rank of `torchft.Manager` asks the lighthouse before each step who takes part in it, and its own manager
after it whether the step counts. Each is a message to another thread or process and an answer, and costs as
much whether the step takes five milliseconds or five hundred. Here

- the lighthouse is asked once for all the steps of the next TERM_SECONDS. How many those are is agreed with
  the same answer: each rank says with its question what it can do, the lighthouse gives all of that to all,
  and the smallest number counts. So all ask before the same step, and who has come meanwhile is there then;
- a rank that is a replica group by itself, as Ray Train makes them, does not ask if it agrees with itself;
- a sum of gradients that is there already is not watched by a timer.

The lighthouse is asked before the very next step whenever something was not as usual: ranks have come or
gone, one is given a state, a step did not count, or a rank is alone. Between two answers a step counts only
if all of the last one were in it, since their sum of gradients needs each of them: who goes on without a rank
that was lost, or frozen, has closed its connections to it. A rank whose step did not count closes them at
once, so that a neighbour whose step did notices, and asks, too.
The names used here are torchft's own (torchft-nightly 2026.10).
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ray.train.v2._internal.execution.callback import WorkerCallback

from raylab_compat.import_hooks import after_import
from raylab_ledger.rank import quietly
from raylab_ledger.train import has_groups
from raylab_switches import active

TERM_SECONDS = 0.1
"""Time that one answer of the lighthouse is for: less than the silence after which it gives a rank up, in
`digits` 0.15 s. Who comes waits so long, and so do those who wait for it."""

MOST_STEPS = 1
"""Most steps that one answer is for. With more, two ranks that the lighthouse had each left alone were seen
to go on with different weights; until that is understood every step asks."""

STEPS = "raylab_steps"
"""Name of the number of steps in what a rank tells the others with its question."""


class Quorums(WorkerCallback):
    """Changes when replica groups ask; other trainings stay as they are."""

    @quietly
    def after_init_train_context(self) -> None:
        from ray.train.v2._internal.execution import context

        config = context.get_train_context().train_run_context.backend_config
        if active("quorums") and has_groups(config):
            after_import({"torchft.manager": lambda module: ask_less(module.Manager)})


class Term:
    """The steps that the last answer of the lighthouse is for, as one rank counts them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._quorum_id: int | None = None
        self._asked = clock()
        self._taken = self._left = 0

    def offer(self) -> int:
        """Return for how many steps this rank could do without asking; called as it asks."""
        now = self._clock()
        seconds = (now - self._asked) / self._taken if self._taken else TERM_SECONDS
        self._asked, self._taken = now, 0
        return max(1, min(MOST_STEPS, int(TERM_SECONDS / max(seconds, 1e-6))))

    def begin(self, quorum: Any) -> None:
        """Take an answer: for one step only, unless the last one was the same and all have the same state."""
        same = quorum.quorum_id == self._quorum_id
        self._quorum_id = quorum.quorum_id
        ranks = quorum.replica_world_size
        whole = same and ranks > 1 and quorum.max_world_size == ranks and not quorum.heal
        self._left = agreed(quorum.reconfigure_handles, ranks) if whole else 1

    def took_step(self) -> None:
        """Count a step that counts."""
        self._taken += 1
        self._left -= 1

    def end(self) -> None:
        """Ask before the next step, for that one alone."""
        self._left = self._taken = 0

    def goes_on(self) -> bool:
        """Tell whether the next step is one that the last answer is for."""
        return self._left > 0


def agreed(handles: Sequence[str], ranks: int) -> int:
    """Return the number of steps that all ranks can do without asking, by what each told the others."""
    try:
        steps = [int(json.loads(handle).get(STEPS, 1)) for handle in handles]
    except (AttributeError, TypeError, ValueError):  # not torchft's own process groups
        return 1
    return max(1, min(steps)) if len(steps) == ranks else 1


def with_offer(handle: Any, steps: int) -> Any:
    """Return what a rank tells the others, with its number of steps; another kind of text stays as it is."""
    with suppress(TypeError, ValueError):
        known = json.loads(handle)
        if isinstance(known, dict):
            return json.dumps({**known, STEPS: steps})
    return handle


class Client:
    """torchft's client of the manager of a replica group with one rank."""

    def __init__(self, client: Any, term: Term) -> None:
        self._raylab_quorums_client, self._term = client, term

    def _quorum(self, *args: Any, **kwargs: Any) -> Any:
        steps = self._term.offer()
        if "reconfigure_handle" in kwargs:
            kwargs["reconfigure_handle"] = with_offer(kwargs["reconfigure_handle"], steps)
        quorum = self._raylab_quorums_client._quorum(*args, **kwargs)
        self._term.begin(quorum)
        return quorum

    def should_commit(self, group_rank: int, step: int, should_commit: bool, timeout: Any) -> bool:
        """Return this rank's own vote: there is no other in its group."""
        return should_commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raylab_quorums_client, name)


def ask_less(manager: Any, clock: Callable[[], float] = time.monotonic) -> None:
    """Let managers of this class ask once for several steps; once is enough."""
    if hasattr(manager.wrap_future, "raylab"):
        return
    init, start_quorum, should_commit = manager.__init__, manager.start_quorum, manager.should_commit
    wrap_future = manager.wrap_future

    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.raylab_term = None
        if self._group_world_size == 1 and self._use_async_quorum:
            self.raylab_term = Term(clock)
            self._client = Client(self._client, self.raylab_term)

    @functools.wraps(start_quorum)
    def begins(self: Any, *args: Any, **kwargs: Any) -> Any:
        usual = not args and not kwargs and self._quorum_future is not None and self.errored() is None
        if usual and self.raylab_term is not None and self.raylab_term.goes_on():
            return None
        return start_quorum(self, *args, **kwargs)

    @functools.wraps(should_commit)
    def commits(self: Any, *args: Any, **kwargs: Any) -> Any:
        committed = should_commit(self, *args, **kwargs)
        if self.raylab_term is not None:
            if committed:
                self.raylab_term.took_step()
            else:
                self.raylab_term.end()
                abort = getattr(self._pg, "abort", None)  # torch's own groups need no other
                if abort is not None:
                    abort()
        return committed

    @functools.wraps(wrap_future)
    def wrapped(self: Any, fut: Any, *args: Any, **kwargs: Any) -> Any:
        return fut if is_there(fut) else wrap_future(self, fut, *args, **kwargs)

    wrapped.raylab = True  # type: ignore[attr-defined]
    manager.__init__, manager.start_quorum, manager.should_commit = made, begins, commits
    manager.wrap_future = wrapped


def is_there(fut: Any) -> bool:
    """Tell whether a future has its value, without an error, in the memory of the CPU."""
    import torch

    if torch.accelerator.is_available() or not fut.done():
        return False
    try:
        fut.value()
    except Exception:  # whatever it is, torchft takes it up
        return False
    return True
