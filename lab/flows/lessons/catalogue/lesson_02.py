"""Lesson 2: a training script that knows nothing of Ray, run on the cluster as a job."""

from __future__ import annotations

import re

from lab.flows.doctor.model import Check
from lab.flows.lessons.model import Evidence, Lesson, failed, passed
from lab.topology import is_worker

PART = "plain"
ACCURACY = re.compile(r"val_accuracy\D{1,3}(\d(?:\.\d+)?)")
CHANCE = 1 / 11
"""Accuracy of somebody who guesses among the 11 classes of Food-11."""

CLEARLY_ABOVE = 2.5 * CHANCE
"""What 55 pictures do not reach by luck: four standard deviations above chance."""

SUBMIT = "run the notebook from its first cell"


def job_succeeded(evidence: Evidence) -> Check:
    """The job was submitted and Ray says that it succeeded."""
    name = "the job succeeded"
    job = evidence.job(PART)
    if job is None:
        return failed(name, f"there is no job lesson-02-{PART}-...", SUBMIT)
    if job.status != "SUCCEEDED":
        return failed(name, f"{job.submission_id} is {job.status}", "wait for it, or read its log")
    seconds = (job.ended_at or 0.0) - (job.started_at or 0.0)
    return passed(name, f"{job.submission_id}, {seconds:.0f} s")


def ran_on_a_gpu_node(evidence: Evidence) -> Check:
    """The script itself asked for a GPU, and ran on a worker node rather than on the head."""
    name = "it ran on a GPU node"
    job = evidence.job(PART)
    if job is None:
        return failed(name, "no job", SUBMIT)
    service = evidence.service_of(job.node_id)
    gpus = evidence.demands.get(job.submission_id, {}).get("GPU", 0)
    cpus = evidence.demands.get(job.submission_id, {}).get("CPU", 0)
    found = f"on {service or 'no node'}, asking for {gpus:g} GPU and {cpus:g} CPU"
    if is_worker(service) and gpus >= 1:
        return passed(name, found)
    return failed(name, found, f"{SUBMIT}, with --entrypoint-num-gpus 1 --entrypoint-num-cpus 8")


def learned(evidence: Evidence) -> Check:
    """The last accuracy that the job printed is clearly above chance."""
    name = "it learned something"
    job = evidence.job(PART)
    printed = ACCURACY.findall(evidence.logs.get(job.submission_id, "")) if job else []
    if not printed:
        return failed(name, "the job printed no val_accuracy", SUBMIT)
    found = f"accuracy {float(printed[-1]):.2f}, guessing gives {CHANCE:.2f}"
    if float(printed[-1]) >= CLEARLY_ABOVE:
        return passed(name, found)
    return failed(name, found, f"{SUBMIT}, with more epochs: --epochs")


LESSON = Lesson(
    number=2,
    name="a-job",
    title="A job",
    notebook="02-a-job.ipynb",
    minutes=15,
    checks=(job_succeeded, ran_on_a_gpu_node, learned),
    needs=("food11",),
)
