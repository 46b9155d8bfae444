"""Lesson 13: a language model's whole life: pre-trained, fine-tuned, and asked; a node is lost in each."""

from __future__ import annotations

from lab.api.receipt import Verdict
from lab.ext.course.inference import lose_node
from lab.ext.course.inference import receipt as inference
from lab.ext.course.lessons.catalogue.breaking import breaks, wait_for_job
from lab.ext.course.lessons.catalogue.training import SUBMIT, run_of, succeeded
from lab.ext.course.lessons.model import (
    Evidence,
    HostTask,
    Lesson,
    LessonCheck,
    answer,
    failed,
)
from lab.host.quantities import plural
from lab.lab import Lab
from lab.topology import Check

PRETRAIN, FINETUNE, BATCH = "pretrain", "finetune", "batch"

AFTER_ANSWERS = 16
"""labctl breaks a node of the batch once so many answers are there."""


def resumed(part: str, name: str) -> LessonCheck:
    """The run of this part lost an attempt, and the next one trained on from a checkpoint of it."""

    def check(evidence: Evidence) -> Check:
        run = run_of(evidence, part)
        if run is None:
            return failed(name, "Ray Train has run nothing", SUBMIT)
        hit = next((a for a in run.attempts if a.failure_detected_at is not None), None)
        if hit is None:
            return failed(name, f"no attempt of {len(run.attempts)} failed", "break its node while it trains")
        after = [a for a in run.attempts if a.number > hit.number and a.reports]
        saved = {checkpoint.uri for checkpoint in run.checkpoints if checkpoint.attempt <= hit.number}
        loaded = {load.uri for a in after for load in a.loads}
        detail = f"attempt {hit.number} failed, {plural(len(after), 'attempt')} trained after it, "
        detail += f"{plural(len(loaded & saved), 'checkpoint')} of before loaded"
        return answer(bool(after and loaded & saved), name, detail, "break it after its first checkpoint")

    return check


def better(evidence: Evidence) -> Check:
    """Fine-tuning began with the pre-trained model: its first loss is far below that of a random one."""
    name = "it was fine-tuned from the pre-trained model"
    job = evidence.job(FINETUNE)
    before, run = run_of(evidence, PRETRAIN), run_of(evidence, FINETUNE)
    if job is None or before is None or run is None:
        return failed(name, "both have to be trained", SUBMIT)
    if before.name not in job.entrypoint or "--from" not in job.entrypoint:
        return failed(name, f"its command has no --from {before.name}", "name the run of the first part")
    first = next((r.metrics.get("loss") for a in run.attempts for r in a.reports), None)
    start = next((r.metrics.get("loss") for a in before.attempts for r in a.reports), None)
    if not isinstance(first, (int, float)) or not isinstance(start, (int, float)):
        return failed(name, "no loss was reported", "run train.py as it is")
    detail = f"first loss {first:.2f}; {start:.2f} in pre-training"
    return answer(first < start, name, detail, "fine-tune the newest checkpoint")


def answered(evidence: Evidence) -> Check:
    """The receipt of the batch says `recovered`: a node was lost, no prompt was."""
    name = "a node was lost, and no prompt with it"
    job = evidence.job(BATCH)
    batch = evidence.batches.get(job.submission_id) if job else None
    if batch is None:
        return failed(name, "there is no evidence of a batch", SUBMIT)
    receipt = inference.judge(batch)
    wrong = [f"{c.name}: {c.detail}" for c in receipt.checks if c.passed is not True]
    tail = receipt.ttft_ms["all"]
    latency = f"; TTFT {tail.p50:,.0f} ms, at most {tail.max:,.0f} ms" if tail else ""
    right = f"{len(batch.prompts)} prompts{latency}"
    detail = "; ".join([receipt.verdict.value, *(wrong or [right])])
    return answer(
        receipt.verdict is Verdict.RECOVERED, name, detail, "break a node while prompts are answered"
    )


def break_each(lab: Lab, task: HostTask) -> None:
    """Kill a node under each job of the lesson, as the class does by hand. Raises LabError."""
    before = {job.submission_id for job in lab.jobs.list()}
    breaks(LESSON.number, (PRETRAIN, FINETUNE), "kill")(lab, task)
    job = wait_for_job(lab, task, LESSON.number, BATCH, before)
    task.say(f"labctl jobs lose-node {job}")
    receipt = lose_node(lab, job, "", AFTER_ANSWERS, task.say, clock=task.clock)
    task.say(f"receipt: {receipt.verdict.value}")


LESSON = Lesson(
    number=13,
    name="language-model",
    title="A language model's life",
    notebook="13-language-model.ipynb",
    minutes=30,
    in_class=False,
    checks=(
        succeeded(PRETRAIN, "it was pre-trained"),
        resumed(PRETRAIN, "pre-training lost a node and went on"),
        succeeded(FINETUNE, "it was fine-tuned"),
        resumed(FINETUNE, "fine-tuning lost a node and went on"),
        better,
        succeeded(BATCH, "a batch was answered"),
        answered,
    ),
    host_task=break_each,
    seconds=2400.0,
)
