"""A node that Ray gave up while it started: it waits a fixed time for a raylet, on a busy machine as well.

The time is RAY_raylet_start_wait_time_s, see lab.cluster.ray_settings.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

TRIES = 3
"""How often a node is started in all until labctl gives up, too."""

log = logging.getLogger("lab.runtime")

_GAVE_UP = ("The current node timed out during startup", "while waiting for node to startup")
"""Ray 2.60, node.py and services.py."""


def ray_gave_up(lines: Sequence[str]) -> bool:
    """Whether `ray start` ended because its raylet had not joined in time.

    On a machine that is busy for a moment another try is worth it.
    """
    return any(words in line for line in lines for words in _GAVE_UP)


def again(service: str, number: int) -> str:
    """What is said of a node that is started for the `number`th time. It goes to labctl's log, too."""
    said = f"started again: the machine was too busy (try {number} of {TRIES})"
    log.info("%s: %s", service, said)
    return said
