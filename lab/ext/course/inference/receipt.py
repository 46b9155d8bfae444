"""The receipt of a batch of inference: no prompt was lost or answered twice, and no answer is another one.

The job stores its evidence (the recipe `llm-batch`); this judges it, and asks nobody. It is a document of
its own: nothing of a recovery receipt (attempts, checkpoints, epochs, ranks) is there in a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import quantiles

from lab.api.base import parse
from lab.api.receipt import Verdict
from lab.errors import NotFoundError, StoreError
from lab.ext.course.batch_documents import BatchCheck, BatchEvidence, BatchReceipt, Tail
from lab.host.quantities import plural
from lab.host.reading import parse_json
from lab.store import MissingObjectError, Store

PREFIX = ".raylab/inference"
"""Folder in the bucket with the evidence of each job."""


def read(store: Store, job: str) -> BatchEvidence:
    """The evidence that a job has stored. Raises NotFoundError for a job without; StoreError."""
    try:
        document = parse_json(store.get(f"{PREFIX}/{job}.json"))
    except MissingObjectError:
        raise NotFoundError(
            f"job {job} has stored no evidence of a batch of inference",
            f"jobs of the recipe llm-batch do when they end; of a training: labctl report {job}",
        ) from None
    except ValueError as error:
        raise StoreError(f"the evidence of job {job} cannot be read: {error}") from error
    evidence = parse(BatchEvidence, document, f"the evidence of job {job} cannot be read", StoreError)
    if not isinstance(evidence.plan.get("output_tokens"), int):
        raise StoreError(
            f"the evidence of job {job} cannot be read: plan.output_tokens is not a whole number"
        )
    return evidence


def judge(evidence: BatchEvidence) -> BatchReceipt:
    """The receipt, a public contract: verdict, checks, TTFT of prompts sent once and of those sent again."""
    checks = [_once(evidence), _whole(evidence), _of_its_checkpoint(evidence), _same(evidence)]
    if evidence.lost_nodes:
        checks.append(_in_flight(evidence))
    answers = evidence.answers
    return BatchReceipt(
        job=evidence.job,
        batch=evidence.batch,
        plan=evidence.plan,
        verdict=_verdict(checks, bool(evidence.lost_nodes)),
        lost_nodes=evidence.lost_nodes,
        checks=tuple(checks),
        sessions=len({a.session for a in answers}),
        lost_attempts=len(evidence.failures),
        ttft_ms={
            "sent once": _tail(a.ttft for a in answers if a.attempts < 2),
            "sent again": _tail(a.ttft for a in answers if a.attempts > 1),
            "all": _tail(a.ttft for a in answers),
        },
        figures=evidence.figures,
    )


def _verdict(checks: Iterable[BatchCheck], lost: bool) -> Verdict:
    answers = [check.passed for check in checks]
    if False in answers:
        return Verdict.FAILED
    if None in answers:
        return Verdict.NOT_VERIFIED
    return Verdict.RECOVERED if lost else Verdict.AS_EXPECTED


def _once(evidence: BatchEvidence) -> BatchCheck:
    """Every prompt has one answer in the store, and there is no other one."""
    counts = Counter(answer.id for answer in evidence.answers)
    missing = [prompt for prompt in evidence.prompts if prompt not in counts]
    twice = [prompt for prompt, count in counts.items() if count > 1]
    foreign = sorted(counts.keys() - set(evidence.prompts))
    wrong = [
        f"{plural(len(ids), 'prompt')} {what} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
        for what, ids in (("without answer", missing), ("answered twice", twice), ("unknown", foreign))
        if ids
    ]
    right = f"{plural(len(counts), 'answer')} to {plural(len(evidence.prompts), 'prompt')}"
    return BatchCheck("every prompt answered once", not wrong and bool(counts), "; ".join(wrong) or right)


def _whole(evidence: BatchEvidence) -> BatchCheck:
    """Every answer is as long as was asked."""
    asked = evidence.plan["output_tokens"]
    short = [a.id for a in evidence.answers if a.output_tokens != asked]
    detail = f"{len(short)} with another length than {asked} tokens" if short else f"{asked} tokens each"
    return BatchCheck("answers are whole", not short, detail)


def _of_its_checkpoint(evidence: BatchEvidence) -> BatchCheck:
    """Every answer names the checkpoint that the batch was asked of, by its SHA-256."""
    name = "answers are the checkpoint's"
    asked = evidence.plan.get("checkpoint_sha256")
    named = [(a.id, a.checkpoint_sha256) for a in evidence.answers]
    others = [prompt for prompt, sha256 in named if asked and sha256 and sha256 != asked]
    if others:
        return BatchCheck(
            name, False, f"{plural(len(others), 'answer')} of another one: {', '.join(others[:3])}"
        )
    if not asked or not all(sha256 for _, sha256 in named):
        return BatchCheck(name, None, "the endpoint did not name the checkpoint that answered")
    return BatchCheck(name, True, f"each names SHA-256 {str(asked)[:16]}")


def _same(evidence: BatchEvidence) -> BatchCheck:
    """Answers that were computed once more have the same SHA-256."""
    name, expected = "same answers", evidence.reference
    compared = [a for a in evidence.answers if a.id in expected]
    if not compared:
        return BatchCheck(name, None, "no answer was recomputed to compare")
    other = [a.id for a in compared if a.sha256 != expected[a.id]]
    if other:
        return BatchCheck(name, False, f"{len(other)} of {len(compared)} differ: {', '.join(other[:3])}")
    again = sum(a.attempts > 1 for a in compared)
    sent_again = [a for a in evidence.answers if a.attempts > 1]
    detail = (
        f"{plural(len(compared), 'answer')} recomputed, with the same SHA-256; {again} of them sent again"
    )
    if sent_again and not again:
        return BatchCheck(name, None, f"{detail}, of {len(sent_again)}")
    return BatchCheck(name, True, detail)


def _in_flight(evidence: BatchEvidence) -> BatchCheck:
    """The node was lost while prompts were in work on it: some were sent again."""
    name = "prompts were in progress on the lost node"
    again = [a for a in evidence.answers if a.attempts > 1]
    if not again:
        return BatchCheck(name, None, "no attempt was lost with it: break it while its replica works")
    return BatchCheck(name, True, f"{plural(len(again), 'prompt')} sent again and answered")


def _tail(seconds: Iterable[float]) -> Tail | None:
    """Count, median, 99th percentile and greatest in milliseconds; None for nothing."""
    ordered = sorted(seconds)
    if not ordered:
        return None

    percents = quantiles(ordered, n=100, method="inclusive") if len(ordered) > 1 else ordered * 99
    p50, p99, most = (round(1000 * value, 1) for value in (percents[49], percents[98], ordered[-1]))
    return Tail(len(ordered), p50, p99, most)
