"""A head that is down: said within seconds, and waited for no longer than it takes to start again.

A head that is slow takes connections and is waited for. One that takes none has died: the lab starts it again
by itself (raylab_recovery.revival), which takes seconds.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from lab.cluster.api import RayApi
from lab.errors import ClusterError, HeadDownError, JobError, LabError
from lab.host.clock import POLL_SECONDS, Clock
from lab.services import HEAD

T = TypeVar("T")

SAID_SECONDS = 6.0
"""Time after which a head that takes no connection is said to be down; each look takes a moment, too."""

LOST_SECONDS = 30.0
"""Time after which nobody waits for it any longer, nor for one that is silent."""

LOOK_SECONDS = 5.0
"""Time from one look at which heads are dead to the next."""

FORGOTTEN = "the new head does not know it"
UNNOTICED = "the node of its entrypoint is dead, which Ray does not notice"
"""Reasons for which a job is lost: its cluster is another one now, or has outlived the head."""

OnOutage = Callable[[str], None]
"""Receives a sentence: that the head is down, or that it answers again."""


def say_nothing(_: str) -> None:
    """No-op, for callers that have nobody to tell."""


class Outage:
    """Follows whether the head takes connections."""

    def __init__(self, clock: Clock, say: OnOutage = say_nothing) -> None:
        self._clock, self._say = clock, say
        self._since: float | None = None
        self._said = False

    def hear(self, answer: object) -> None:
        """Take up an answer of the head's, or the error in place of one."""
        if not isinstance(answer, ClusterError):
            if self._said:
                self._say("the head answers again")
            self._since, self._said = None, False
        if not isinstance(answer, HeadDownError):
            return
        if self._since is None:
            self._since = self._clock()
        if not self._said and self.seconds >= SAID_SECONDS:
            self._said = True
            self._say(answer.message)

    @property
    def seconds(self) -> float:
        """Time for which it has been down; 0 while it is not."""
        return 0.0 if self._since is None else self._clock() - self._since


def patiently(
    ask: Callable[[], T], bears: type[LabError], seconds: float, clock: Clock, outage: Outage | None = None
) -> T:
    """The answer, asked for again for so long while it is this error. Raises the last one."""
    end, outage = clock() + seconds, outage or Outage(clock)
    while True:
        try:
            answer = ask()
        except LabError as error:
            outage.hear(error)
            if not isinstance(error, bears) or clock() >= end:
                raise
            clock.sleep(POLL_SECONDS)
        else:
            outage.hear(answer)
            return answer


def lost_with_head(submission_id: str, why: str) -> JobError:
    """The error of a job that died with its head."""
    return JobError(
        f"the head was lost, and with it job {submission_id}: {why}",
        "its checkpoints are kept; submit it again",
    )


class DeadHeads:
    """The nodes of heads that have died, in a cluster that outlived them.

    Ray (2.60) goes on to say of a job whose driver ran there that it runs.
    """

    def __init__(self, api: RayApi, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._ends: Mapping[str, float] = {}
        self._looked = -math.inf

    def find(self, node_id: str) -> float | None:
        """The time at which this node of a head was declared dead; None for any other node."""
        now = self._clock()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            with contextlib.suppress(ClusterError):
                dead = (node for node in self._api.nodes() if node.service == HEAD and not node.alive)
                self._ends = {node.node_id: node.ended_at or 0.0 for node in dead}
        return self._ends.get(node_id)
