"""Hysteresis, for each check apart.

A state gets worse once `worse_after` results in a row are worse than it:
one where a result is a fact (an ECC counter), two where it is a measurement that a busy machine can spoil.
It gets better once `better_after` results in a row are better. Getting worse it takes the least bad state of
that row, getting better the worst. A result that says UNKNOWN (a check that could not tell) is neither: it
leaves a state that is known.
"""

from __future__ import annotations

from dataclasses import replace

from lab.api.health import Result
from lab.daemons.health.model import BADNESS, PASS, UNKNOWN, CheckHealth


def settle(kept: CheckHealth | None, found: Result, now: float) -> CheckHealth:
    """The state of a check after one more result; see the rule of the module."""
    if kept is None or kept.state == UNKNOWN:
        patient = not found.ordered and found.worse_after > 1 and BADNESS[found.state] > BADNESS[PASS]
        return (
            CheckHealth(found, PASS, now, (found.state,)) if patient else CheckHealth(found, found.state, now)
        )
    if found.state == UNKNOWN:
        return replace(kept, result=found)
    if found.ordered or found.state == kept.state:
        since = kept.since if found.state == kept.state else now
        return CheckHealth(found, found.state, since)
    worse = BADNESS[found.state] > BADNESS[kept.state]
    row = (*(each for each in kept.row if _beyond(each, kept.state, worse)), found.state)
    if len(row) < (found.worse_after if worse else found.better_after):
        return replace(kept, result=found, row=row)
    mildest = (min if worse else max)(row, key=BADNESS.__getitem__)
    return CheckHealth(found, mildest, now)


def _beyond(state: str, kept: str, worse: bool) -> bool:
    return (BADNESS[state] > BADNESS[kept]) if worse else (BADNESS[state] < BADNESS[kept])
