"""Lesson 13: a language model's whole life: pre-trained, fine-tuned, and asked; a node is lost in each."""

from __future__ import annotations

from lab.api.receipt import Verdict
from lab.evidence.ledger import number
from lab.ext.course.inference import lose_node
from lab.ext.course.inference import receipt as inference
from lab.ext.course.lessons.catalogue.breaking import breaks, wait_for_job
from lab.ext.course.lessons.catalogue.training import run_of, succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, HostTask, Lesson, LessonCheck, check, holds, need
from lab.host.quantities import plural
from lab.lab import Lab

PRETRAIN, FINETUNE, BATCH = "pretrain", "finetune", "batch"

AFTER_ANSWERS = 16
"""labctl breaks a node of the batch once so many answers are there."""


def resumed(part: str, name: str) -> LessonCheck:
    """The run of this part lost an attempt, and the next one trained on from a checkpoint of it."""

    @check(name, "break its node after its first checkpoint, while it trains")
    def look(evidence: Evidence) -> str:
        run = run_of(evidence, part)
        hit = next((a for a in run.attempts if a.failure_detected_at is not None), None)
        hit = need(hit, f"no attempt of {len(run.attempts)} failed")
        after = [a for a in run.attempts if a.number > hit.number and a.reports]
        saved = {checkpoint.uri for checkpoint in run.checkpoints if checkpoint.attempt <= hit.number}
        loaded = saved & {load.uri for a in after for load in a.loads}
        detail = f"attempt {hit.number} failed, {plural(len(after), 'attempt')} trained after it, "
        return holds(bool(loaded), f"{detail}{plural(len(loaded), 'checkpoint')} of before loaded")

    return look


@check("it was fine-tuned from the pre-trained model", "fine-tune the newest checkpoint")
def better(evidence: Evidence) -> str:
    """Fine-tuning began with the pre-trained model: its first loss is far below that of a random one."""
    before, run = run_of(evidence, PRETRAIN), run_of(evidence, FINETUNE)
    command = evidence.submitted(FINETUNE).entrypoint
    named = before.name in command and "--from" in command
    holds(named, f"its command has no --from {before.name}", "name the run of the first part")
    start, first = (
        need(number(next(r.metrics.get("loss") for a in x.attempts for r in a.reports)), "no loss")
        for x in (before, run)
    )
    return holds(first < start, f"first loss {first:.2f}; {start:.2f} in pre-training")


@check("a node was lost, and no prompt with it", "break a node while prompts are answered")
def answered(evidence: Evidence) -> str:
    """The receipt of the batch says `recovered`."""
    batch = evidence.batches.get(evidence.submitted(BATCH).submission_id)
    receipt = inference.judge(need(batch, "there is no evidence of a batch", SUBMIT))
    wrong = [f"{c.name}: {c.detail}" for c in receipt.checks if c.passed is not True]
    holds(receipt.verdict is Verdict.RECOVERED, "; ".join([receipt.verdict.value, *wrong]))
    tail = receipt.ttft_ms["all"]
    latency = f"; TTFT {tail.p50:,.0f} ms, at most {tail.max:,.0f} ms" if tail else ""
    return f"{len(batch.prompts) if batch else 0} prompts{latency}"


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
