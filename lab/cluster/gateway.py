"""Words for a person of a class when its gateway, her way to Ray and to the queues, does not serve her.

Each is a message and what to do.
"""

from __future__ import annotations

TUNNEL = "is RAY_ADDRESS right, and `ssh -L` to the server open? else ask your teacher"


def silent(url: str, why: object) -> tuple[str, str]:
    """Nobody answers there."""
    return f"the gateway of the class at {url} does not answer ({why})", TUNNEL


def refused(url: str, status: int) -> tuple[str, str]:
    """It does not know the token."""
    return (
        f"the gateway of the class at {url} refused the token (HTTP {status})",
        "is RAY_AUTH_TOKEN your latest one? your teacher can make another: labctl class reset NAME",
    )


def absent(url: str, status: int) -> tuple[str, str]:
    """Something else answers there."""
    return (
        f"what answers at {url} is not the gateway of a class (HTTP {status})",
        "RAY_ADDRESS is the gateway's, such as http://127.0.0.1:8280; Ray's dashboard has another port",
    )


def untrusted(url: str, why: object) -> tuple[str, str]:
    """Its certificate is refused."""
    return (
        f"the class at {url} is not trusted here ({why})",
        "export SSL_CERT_FILE=FILE, the certificate of its authority as your teacher gave it to you",
    )
