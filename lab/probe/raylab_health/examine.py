"""One run of one check on one device, and its result as it is sent."""

from __future__ import annotations

from typing import Any

from raylab_health.model import (
    EVICT,
    GPU,
    PASS,
    SIMULATED,
    UNKNOWN,
    Check,
    Context,
    Finding,
    LostError,
    NotHereError,
    UnreadableError,
)

TEXT = 300
"""Characters of a message that are sent."""


def examine(check: Check, device: str, context: Context) -> dict[str, Any]:
    """The result of a run. Raises NotHereError where the check cannot be made on this node.

    A GPU that no longer answers is EVICT, whatever was to be checked. A simulated GPU has nothing to check.
    """
    try:
        if check.kind == GPU and context.vendor == SIMULATED:
            finding = Finding(PASS, message="a simulated GPU: nothing is measured")
        else:
            finding = check.run(context, device)
    except LostError as error:
        finding = Finding(EVICT, message=f"the GPU does not answer: {error}")
    except UnreadableError as error:
        finding = Finding(UNKNOWN, message=str(error))
    except NotHereError:
        raise
    except Exception as error:  # a driver's file with other content, say: the agent has to live on
        finding = Finding(UNKNOWN, message=f"the check failed: {error!r}")
    return examined(check, finding, context)


def examined(check: Check, finding: Finding, context: Context) -> dict[str, Any]:
    """A finding as it is sent."""
    return {
        "name": check.name,
        "state": finding.state,
        "message": finding.message[:TEXT],
        "value": finding.value,
        "unit": finding.unit,
        "at": round(context.wall(), 3),
    }
