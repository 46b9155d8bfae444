"""The network from this node to the other nodes of the lab."""

from __future__ import annotations

import socket

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError

SECONDS = 2.0
"""Time for a connection; on one machine it takes less than a millisecond."""

PAUSES = (5.0, 5.0)
"""Times after which those that did not answer are asked again: a node that starts again is not away."""


def run(context: Context, device: str = CPU) -> Finding:
    """WARN when more than half of the other nodes do not answer: then it is this one that is cut off.

    A peer is a node whose agent was heard a moment ago, with the address at which it listens.
    """
    peers: dict[str, str] = dict(context.facts.get("peers") or {})
    if len(peers) < 2:  # of two nodes that do not hear each other either may be the one that is cut off
        raise NotHereError("there is no other node to ask yet, or only one")
    silent = sorted(peers)
    for pause in (0.0, *PAUSES):
        context.sleep(pause)
        silent = [name for name in silent if not answers(peers[name])]
        if 2 * len(silent) <= len(peers):
            return Finding(PASS, float(len(silent)), "peers")
    return Finding(WARN, float(len(silent)), "peers", f"{', '.join(silent)} cannot be reached from here")


def answers(address: str) -> bool:
    """Tell whether somebody answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


CHECK = Check("ping", NODE, 10.0, run, deadline=60.0)
