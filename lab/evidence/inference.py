"""The receipt of a batch of inference: no prompt was lost or answered twice, and no answer is another one.

The job stores its evidence (the recipe `llm-batch`); this judges it, and asks nobody. It is a document of
its own: nothing of a recovery receipt (attempts, checkpoints, epochs, ranks) is there in a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.errors import NotFoundError, StoreError
from lab.evidence.receipt import Verdict
from lab.host.quantities import plural
from lab.host.reading import parse_json
from lab.host.schemas import misfits
from lab.store import MissingObjectError, Store

PREFIX = ".raylab/inference"
"""Folder in the bucket with the evidence of each job."""

SCHEMA = "inference-receipt/1"

_TEXT, _NUMBER, _COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}


def _object(**fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": sorted(fields)}


def _list(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


EVIDENCE: Mapping[str, Any] = _object(
    schema={"const": "inference-evidence/1"},
    job=_TEXT,
    batch=_TEXT,
    plan=_object(output_tokens=_COUNT),
    prompts=_list(_TEXT),
    answers=_list(
        _object(
            id=_TEXT, sha256=_TEXT, output_tokens=_COUNT, session=_TEXT,
            sent_at=_NUMBER, ttft=_NUMBER, e2e=_NUMBER, attempts=_COUNT,
        )
    ),
    failures=_list(_object(id=_TEXT, attempt=_COUNT, at=_NUMBER, reason=_TEXT)),
    lost_nodes=_list(_object(node_id=_TEXT, at=_NUMBER)),
    reference={"type": "object", "additionalProperties": _TEXT},
    figures={"type": ["object", "null"]},
)  # fmt: skip
"""Schema of what the job stores; unknown fields fit. Times are in seconds, `at` since the epoch."""


@dataclass(frozen=True)
class BatchCheck:
    """One question of the receipt. `passed` is None where the evidence does not tell."""

    name: str
    passed: bool | None
    detail: str


def read(store: Store, job: str) -> Mapping[str, Any]:
    """The evidence that a job has stored. Raises NotFoundError for a job without; StoreError."""
    try:
        document = parse_json(store.get(f"{PREFIX}/{job}.json"))
    except MissingObjectError:
        raise NotFoundError(
            f"job {job} has stored no evidence of a batch of inference",
            "jobs of the recipe llm-batch do when they end; of a training: labctl report",
        ) from None
    except ValueError as error:
        raise StoreError(f"the evidence of job {job} cannot be read: {error}") from error
    if wrong := next(misfits(document, EVIDENCE, "the evidence"), ""):
        raise StoreError(f"the evidence of job {job} cannot be read: {wrong}")
    read: Mapping[str, Any] = document
    return read


def judge(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt, a public contract: verdict, checks, TTFT of prompts sent once and of those sent again."""
    checks = [_once(evidence), _whole(evidence), _of_its_checkpoint(evidence), _same(evidence)]
    lost = evidence["lost_nodes"]
    if lost:
        checks.append(_in_flight(evidence))
    answers = evidence["answers"]
    return {
        "schema": SCHEMA,
        "job": evidence["job"],
        "batch": evidence["batch"],
        "plan": evidence["plan"],
        "verdict": _verdict(checks, bool(lost)).value,
        "lost_nodes": lost,
        "checks": [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in checks],
        "sessions": len({a["session"] for a in answers}),
        "lost_attempts": len(evidence["failures"]),
        "ttft_ms": {
            "sent once": _tail(a["ttft"] for a in answers if a["attempts"] < 2),
            "sent again": _tail(a["ttft"] for a in answers if a["attempts"] > 1),
            "all": _tail(a["ttft"] for a in answers),
        },
        "figures": evidence["figures"],
    }


def _verdict(checks: Iterable[BatchCheck], lost: bool) -> Verdict:
    answers = [check.passed for check in checks]
    if False in answers:
        return Verdict.FAILED
    if None in answers:
        return Verdict.NOT_VERIFIED
    return Verdict.RECOVERED if lost else Verdict.AS_EXPECTED


def _once(evidence: Mapping[str, Any]) -> BatchCheck:
    """Every prompt has one answer in the store, and there is no other one."""
    counts = Counter(answer["id"] for answer in evidence["answers"])
    missing = [prompt for prompt in evidence["prompts"] if prompt not in counts]
    twice = [prompt for prompt, count in counts.items() if count > 1]
    foreign = sorted(counts.keys() - set(evidence["prompts"]))
    wrong = [
        f"{plural(len(ids), 'prompt')} {what} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
        for what, ids in (("without answer", missing), ("answered twice", twice), ("unknown", foreign))
        if ids
    ]
    right = f"{plural(len(counts), 'answer')} to {plural(len(evidence['prompts']), 'prompt')}"
    return BatchCheck("every prompt answered once", not wrong and bool(counts), "; ".join(wrong) or right)


def _whole(evidence: Mapping[str, Any]) -> BatchCheck:
    """Every answer is as long as was asked."""
    asked = evidence["plan"]["output_tokens"]
    short = [a["id"] for a in evidence["answers"] if a["output_tokens"] != asked]
    detail = f"{len(short)} of other length than {asked} tokens" if short else f"{asked} tokens each"
    return BatchCheck("answers are whole", not short, detail)


def _of_its_checkpoint(evidence: Mapping[str, Any]) -> BatchCheck:
    """Every answer names the checkpoint that the batch was asked of, by its SHA-256."""
    name = "answers are the checkpoint's"
    asked = evidence["plan"].get("checkpoint_sha256")
    named = [(a["id"], a.get("checkpoint_sha256")) for a in evidence["answers"]]
    others = [prompt for prompt, sha256 in named if asked and sha256 and sha256 != asked]
    if others:
        return BatchCheck(
            name, False, f"{plural(len(others), 'answer')} of another one: {', '.join(others[:3])}"
        )
    if not asked or not all(sha256 for _, sha256 in named):
        return BatchCheck(name, None, "the endpoint did not name the checkpoint that answered")
    return BatchCheck(name, True, f"each names SHA-256 {asked[:16]}")


def _same(evidence: Mapping[str, Any]) -> BatchCheck:
    """Answers that were computed once more have the same SHA-256."""
    name, expected = "same answers", evidence["reference"]
    compared = [a for a in evidence["answers"] if a["id"] in expected]
    if not compared:
        return BatchCheck(name, None, "no answer was computed once more")
    other = [a["id"] for a in compared if a["sha256"] != expected[a["id"]]]
    if other:
        return BatchCheck(name, False, f"{len(other)} of {len(compared)} differ: {', '.join(other[:3])}")
    again = sum(a["attempts"] > 1 for a in compared)
    sent_again = [a for a in evidence["answers"] if a["attempts"] > 1]
    detail = (
        f"{plural(len(compared), 'answer')} computed once more, the same SHA-256; {again} of them sent again"
    )
    if sent_again and not again:
        return BatchCheck(name, None, f"{detail}, of {len(sent_again)}")
    return BatchCheck(name, True, detail)


def _in_flight(evidence: Mapping[str, Any]) -> BatchCheck:
    """The node was lost while prompts were in work on it: some were sent again."""
    name = "prompts were in work on the lost node"
    again = [a for a in evidence["answers"] if a["attempts"] > 1]
    if not again:
        return BatchCheck(name, None, "no attempt was lost with it: break it while its replica works")
    return BatchCheck(name, True, f"{plural(len(again), 'prompt')} sent again and answered")


def _tail(seconds: Iterable[float]) -> dict[str, float] | None:
    """Count, median, 99th percentile and greatest in milliseconds; None for nothing."""
    ordered = sorted(seconds)
    if not ordered:
        return None

    def at(share: float) -> float:
        place = (len(ordered) - 1) * share
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return round(1000 * (ordered[low] + (ordered[high] - ordered[low]) * (place - low)), 1)

    return {"count": len(ordered), "p50": at(0.5), "p99": at(0.99), "max": at(1.0)}
