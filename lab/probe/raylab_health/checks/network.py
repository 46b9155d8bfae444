"""The network: this machine to itself, and to the other nodes of the lab."""

from __future__ import annotations

import socket

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError

SECONDS = 2.0
"""Time for a connection; on one machine it takes less than a millisecond."""

TRIES = 3
WORD = b"raylab"


def loopback(context: Context, device: str = CPU) -> Finding:
    """WARN when a word sent to itself does not come back, or slowly, several times."""
    best, why = float("inf"), ""
    for _ in range(TRIES):
        begin = context.monotonic()
        try:
            echo()
        except OSError as error:
            why = str(error)
            continue
        best = min(best, context.monotonic() - begin)
        if best < SECONDS / 10:
            break
    if best == float("inf"):
        return Finding(WARN, None, "ms", f"127.0.0.1 does not answer: {why}")
    message = f"127.0.0.1 takes {best:.1f} s to answer" if best > SECONDS else ""
    return Finding(WARN if message else PASS, round(best * 1000, 3), "ms", message)


def echo() -> None:
    """Send a word through a connection to oneself. Raises OSError."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        with socket.create_connection(server.getsockname(), timeout=SECONDS) as out:
            out.sendall(WORD)
            inside, _ = server.accept()
            with inside:
                inside.settimeout(SECONDS)
                if inside.recv(len(WORD)) != WORD:
                    raise OSError("the answer is not what was sent")


def ping(context: Context, device: str = CPU) -> Finding:
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


LOOPBACK = Check("loopback", NODE, 30.0, loopback, deadline=20.0, worse_after=2, hung=WARN)
PING = Check("ping", NODE, 10.0, ping, deadline=60.0, worse_after=3, better_after=2)
