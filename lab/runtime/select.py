"""Which runtime a lab runs on, and why."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from lab.errors import UnsupportedError, UsageError
from lab.runtime.base import Runtime

KINDS = ("auto", "local", "compose")


@dataclass(frozen=True)
class Choice:
    """A runtime and the reason for it."""

    runtime: Runtime
    kind: str
    why: str


def choose(kind: str, lab: str) -> Choice:
    """The runtime `kind` (one of KINDS) for the lab of this name.

    Raises UsageError for an unknown kind, UnsupportedError for one that cannot run here.
    """
    if kind not in KINDS:
        raise UsageError(f"--runtime {kind}: unknown", f"known: {', '.join(KINDS)}")
    if kind == "compose":
        raise UnsupportedError(
            "the compose runtime is not built yet in this version", "use --runtime local (or auto)"
        )
    why = "asked for" if kind == "local" else "auto: this version runs labs as plain processes"
    if sys.platform == "win32":
        raise UnsupportedError(
            "the local runtime needs Linux or macOS (Ray has no multi-node clusters on Windows)"
        )
    from lab.runtime.local.runtime import LocalRuntime

    return Choice(LocalRuntime(lab), "local", why)
