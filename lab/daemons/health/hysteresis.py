"""Hysteresis, for each check apart.

A state gets worse once `worse_after` results in a row are worse than it:
one where a result is a fact (an ECC counter), two where it is a measurement that a busy machine can spoil.
It gets better once `better_after` results in a row are better. Getting worse it takes the least bad state of
that row, getting better the worst. A result that says UNKNOWN (a check that could not tell) is neither: it
leaves a state that is known.
"""

from __future__ import annotations

from dataclasses import replace

from lab.api.health import PASS, UNKNOWN, Result
from lab.daemons.health.model import BADNESS, CheckHealth


def settle(kept: CheckHealth | None, result: Result, now: float) -> CheckHealth:
    """The state of a check after one more result; see the rule of the module."""
    if kept is None or kept.state == UNKNOWN:
        if not result.ordered and result.worse_after > 1 and BADNESS[result.state] > BADNESS[PASS]:
            return CheckHealth(result, PASS, now, (result.state,))
        return CheckHealth(result, result.state, now)
    if result.state == UNKNOWN:
        return replace(kept, result=result)
    if result.ordered or result.state == kept.state:
        since = kept.since if result.state == kept.state else now
        return CheckHealth(result, result.state, since)
    worse = BADNESS[result.state] > BADNESS[kept.state]
    row = (*(past for past in kept.row if _beyond(past, kept.state, worse)), result.state)
    if len(row) < (result.worse_after if worse else result.better_after):
        return replace(kept, result=result, row=row)
    mildest = (min if worse else max)(row, key=BADNESS.__getitem__)
    return CheckHealth(result, mildest, now)


def _beyond(state: str, kept: str, worse: bool) -> bool:
    return (BADNESS[state] > BADNESS[kept]) if worse else (BADNESS[state] < BADNESS[kept])
