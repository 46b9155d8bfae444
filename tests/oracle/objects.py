"""What drawn and written scenarios have in common."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

Object = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
NOW = datetime(2026, 11, 2, 12, tzinfo=timezone.utc)
"""The moment of the first cycle."""


def shown(resource: str, value: int) -> str:
    """An amount, of cpu in thousandths, as a quantity."""
    return f"{value}m" if resource == "cpu" else str(value)


def condition(kind: str, since: str, reason: str) -> Object:
    """A condition that is true."""
    return {"type": kind, "status": "True", "lastTransitionTime": since, "reason": reason, "message": reason}


def moment(seconds: int) -> str:
    """The time so many seconds after the beginning of the two hours before the first cycle."""
    return (NOW + timedelta(seconds=seconds - 7200)).strftime("%Y-%m-%dT%H:%M:%SZ")
