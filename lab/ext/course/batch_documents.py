"""A batch of inference as documents: the evidence that its job stores, and the receipt that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from lab.api.base import Number
from lab.api.receipt import Verdict

BATCH_RECEIPT: Final = "inference-receipt/1"


@dataclass(frozen=True)
class BatchAnswer:
    """An answer that the store has. Times are in seconds, `sent_at` since the epoch."""

    id: str
    sha256: str
    output_tokens: int
    session: str
    sent_at: float
    ttft: float
    """From the prompt to its first token."""
    e2e: float
    attempts: int
    checkpoint_sha256: str | None = None
    """Of the checkpoint that answered, where the endpoint names it."""


@dataclass(frozen=True)
class LostAnswer:
    """An attempt at a prompt that broke off. `at` is in seconds since the epoch."""

    id: str
    attempt: int
    at: float
    reason: str


@dataclass(frozen=True)
class LostNode:
    """A node that Ray declared dead. `at` is in seconds since the epoch."""

    node_id: str
    at: Number


@dataclass(frozen=True)
class BatchEvidence:
    """What a job of the recipe `llm-batch` stores at its end."""

    schema: Literal["inference-evidence/1"]
    job: str
    batch: str
    plan: Mapping[str, object]
    """What was asked for, by the script's own names; the receipt repeats it."""
    prompts: tuple[str, ...]
    """Ids of those that were to be answered."""
    answers: tuple[BatchAnswer, ...]
    failures: tuple[LostAnswer, ...]
    lost_nodes: tuple[LostNode, ...]
    reference: Mapping[str, str]
    """Prompt -> SHA-256 of its answer when computed once more."""
    figures: Mapping[str, object] | None
    """What the script measured; the receipt repeats it."""


@dataclass(frozen=True)
class BatchCheck:
    """One question of the receipt. `passed` is None where the evidence does not tell."""

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class Tail:
    """Latencies in milliseconds: how many, the median, the 99th percentile and the greatest."""

    count: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True, kw_only=True)
class BatchReceipt:
    """Whether a batch lost a prompt or answered one twice."""

    schema: Literal["inference-receipt/1"] = field(default=BATCH_RECEIPT)
    job: str
    batch: str
    plan: Mapping[str, object]
    verdict: Verdict
    lost_nodes: tuple[LostNode, ...]
    checks: tuple[BatchCheck, ...]
    sessions: int
    lost_attempts: int
    ttft_ms: Mapping[str, Tail | None]
    """Time to the first token of prompts that were sent once, sent again, and of all."""
    figures: Mapping[str, object] | None
