"""Changes how Ray behaves: one module for each patch of `raylab_switches.PATCHES`."""

from __future__ import annotations

CONNECT_SECONDS = 0.5
"""Timeout of one connection; the kernel of a busy machine takes it at once."""


def connects(address: str, port: int) -> bool:
    """Tell whether somebody takes a connection there."""
    import socket  # most patches need none, and each costs a process its start

    try:
        with socket.create_connection((address, port), timeout=CONNECT_SECONDS):
            return True
    except OSError:
        return False
