"""Retry policies of jobs, with the defaults and the annotations of AppWrapper v1beta2."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.api.queue_requests import (
    CEILING_SECONDS,
    MOST_CODE,
    MOST_CODES,
    MOST_RETRIES,
    MOST_TTL_SECONDS,
    Retry,
)
from lab.errors import UsageError

PREFIX = "workload.codeflare.dev.appwrapper/"
ANNOTATIONS = {
    "retryLimit": "limit",
    "retryPausePeriodDuration": "pause",
    "warmupGracePeriodDuration": "warmup",
    "failureGracePeriodDuration": "failure_grace",
    "successTTLDuration": "success_ttl",
    "terminalExitCodes": "terminal_exit_codes",
    "retryableExitCodes": "retryable_exit_codes",
}
"""Ending of an annotation -> field of the policy."""

LEFT_OUT = (
    "admissionGracePeriodDuration",
    "forcefulDeletionGracePeriodDuration",
    "deletionOnFailureGracePeriodDuration",
)
"""Annotations about pods and their deletion, which have no counterpart among Ray's jobs."""

GO_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
GO_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class RetryPolicy(Retry):
    """Rules for a job that fails or falls ill. Periods are seconds. Raises UsageError where they are wrong.

    `warmup` is the time that an attempt has to hold all that the job was granted, `failure_grace` the time
    that Ray Train has to bring back ranks that were lost; `pause` lies between two attempts. A job that
    succeeded is forgotten after `success_ttl`.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= MOST_RETRIES:
            raise UsageError(f"retry limit {self.limit}: must be between 0 and {MOST_RETRIES}")
        for name in ("pause", "warmup", "failure_grace", "success_ttl"):
            seconds = getattr(self, name)
            most = MOST_TTL_SECONDS if name == "success_ttl" else CEILING_SECONDS
            if not (math.isfinite(seconds) and 0 <= seconds <= most):
                raise UsageError(f"{name} {seconds:g} s: must be between 0 and {most / 3600:g} hours")
        for name in ("terminal_exit_codes", "retryable_exit_codes"):
            codes = getattr(self, name)
            if len(codes) > MOST_CODES or not all(1 <= code <= MOST_CODE for code in codes):
                raise UsageError(f"{name}: an exit code is a number from 1 to {MOST_CODE}")
        both = sorted(set(self.terminal_exit_codes) & set(self.retryable_exit_codes))
        if both:
            raise UsageError(f"exit code {both[0]}: terminal and retryable", "name it in one of the lists")

    def terminal(self, code: int | None) -> bool:
        """Tell if an attempt that ended with this code must not be repeated; None where no code is known.

        A terminal code is; with a list of retryable ones every other code is too.
        """
        if code is None:
            return False
        if code in self.terminal_exit_codes:
            return True
        return bool(self.retryable_exit_codes) and code not in self.retryable_exit_codes


def exit_codes(text: str, where: str) -> tuple[int, ...]:
    """Codes of a list such as `2,3`. Raises UsageError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(re.fullmatch(r"[0-9]{1,3}", word) for word in words):
        raise UsageError(f"{where} {text!r}: not a list of exit codes", "write 2,3")
    return tuple(dict.fromkeys(int(word) for word in words))


def of_annotations(annotations: Mapping[str, Any], where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a policy that AppWrapper's annotations name, and those of them without a counterpart here.

    Annotations of others are passed over. Raises UsageError that names the annotation.
    """
    policy: dict[str, object] = {}
    left_out = []
    for name, value in annotations.items():
        if not str(name).startswith(PREFIX):
            continue
        ending = str(name)[len(PREFIX) :]
        if ending in LEFT_OUT:
            left_out.append(ending)
            continue
        if ending not in ANNOTATIONS:
            known = ", ".join(ANNOTATIONS)
            raise UsageError(f"{where}: annotation {PREFIX}{ending}: AppWrapper has none", f"known: {known}")
        field, text, place = ANNOTATIONS[ending], str(value).strip(), f"{where}: annotation {ending}"
        if field == "limit":
            if not re.fullmatch(r"[0-9]{1,9}", text):
                raise UsageError(f"{place} {text!r}: not a whole number")
            policy[field] = int(text)
        elif field.endswith("_codes"):
            policy[field] = exit_codes(text, place)
        else:
            policy[field] = _go_duration(text, place)
    return policy, tuple(left_out)


def _go_duration(text: str, where: str) -> float:
    """Seconds of a duration as Go writes it: `90s`, `1m30s`. Raises UsageError."""
    parts = GO_DURATION.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{where} {text!r}: not a duration", "write 90s or 1m30s")
    return sum(float(number) * GO_UNITS[unit] for number, unit in parts)
