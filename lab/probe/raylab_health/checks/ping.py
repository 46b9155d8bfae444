"""The network from this node to the other nodes of the lab."""

from __future__ import annotations

import socket

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError

SECONDS = 2.0
"""Time for a connection; on one machine it takes less than a millisecond."""


def run(context: Context, device: str = CPU) -> Finding:
    """WARN when more than half of the other nodes do not answer: then it is this one that is cut off.

    A peer is a node whose agent was heard a moment ago, with the address at which it listens.
    """
    peers: dict[str, str] = dict(context.facts.get("peers") or {})
    if not peers:
        raise NotHereError("there is no other node to ask yet")
    silent = {name: why for name, address in sorted(peers.items()) if (why := unreachable(address))}
    bad = 2 * len(silent) > len(peers)
    message = f"{', '.join(silent)} cannot be reached from here" if bad else ""
    return Finding(
        WARN if bad else PASS, float(len(silent)), "peers", message, silent or {"peers": len(peers)}
    )


def unreachable(address: str) -> str:
    """Reason why nobody answers at HOST:PORT; empty when somebody does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()
    except (OSError, ValueError) as error:
        return str(error) or "no answer"
    return ""


CHECK = Check("ping", NODE, 10.0, run, deadline=60.0, worse_after=3, better_after=2)
