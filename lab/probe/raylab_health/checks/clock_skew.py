"""The node's clock against that of the service that hears its reports."""

from __future__ import annotations

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError

MOST_SECONDS = 1.0
"""Machines that keep time are milliseconds apart; an object store refuses requests from 15 minutes on."""


def run(context: Context, device: str = CPU) -> Finding:
    """WARN for a difference that is larger than what the answer's way can explain."""
    clock = context.facts.get("clock")
    if not clock:
        raise NotHereError("no answer has told the time yet")
    skew, doubt = float(clock["skew"]), float(clock["doubt"])
    bad = abs(skew) - doubt > MOST_SECONDS
    message = f"its clock is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}" if bad else ""
    return Finding(WARN if bad else PASS, round(skew, 3), "s", message)


CHECK = Check("clock-skew", NODE, 10.0, run)
