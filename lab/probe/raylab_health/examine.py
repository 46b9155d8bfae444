"""One run of one check on one device, and its result as it is sent; an override stands for what is found."""

from __future__ import annotations

from collections.abc import Mapping
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
"""Characters of a message or of a piece of evidence that are sent."""


def examine(
    check: Check, device: str, context: Context, override: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The result of a run. Raises NotHereError where the check cannot be made on this node.

    A GPU that no longer answers is EVICT, whatever was to be checked. A simulated GPU has nothing to check:
    its results are those that a fault orders, else PASS.
    """
    if override is not None:
        message = override.get("message") or f"ordered: {check.name} says {override['state']}"
        evidence = {"override": "a fault ordered it"}
        finding = Finding(str(override["state"]), message=str(message), evidence=evidence)
        return _result(check, device, finding, context, ordered=True)
    try:
        if check.kind == GPU and context.vendor == SIMULATED:
            finding = Finding(PASS, message="a simulated GPU: nothing is measured")
        else:
            finding = check.run(context, device)
    except LostError as error:
        lost = Finding(EVICT, message=f"the GPU does not answer: {error}", evidence={"error": error})
        return _result(check, device, lost, context, worse_after=1)
    except UnreadableError as error:
        finding = Finding(UNKNOWN, message=str(error))
    except NotHereError:
        raise
    except Exception as error:  # a driver's file with other content, say: the agent has to live on
        finding = Finding(UNKNOWN, message=f"the check failed: {error!r}")
    return _result(check, device, finding, context)


def hung(check: Check, device: str, context: Context) -> dict[str, Any]:
    """The result of a run that did not end in time."""
    message = f"did not end within {check.deadline:g} s"
    return _result(check, device, Finding(check.hung, message=message), context)


def _result(
    check: Check,
    device: str,
    finding: Finding,
    context: Context,
    *,
    ordered: bool = False,
    worse_after: int = 0,
) -> dict[str, Any]:
    return {
        "check": check.name,
        "device": device,
        "state": finding.state,
        "value": finding.value,
        "unit": finding.unit,
        "message": finding.message[:TEXT],
        "evidence": {str(name): str(value)[:TEXT] for name, value in finding.evidence.items()},
        "at": round(context.wall(), 3),
        "interval": check.interval,
        "worse_after": worse_after or check.worse_after,
        "better_after": check.better_after,
        "ordered": ordered,
    }
