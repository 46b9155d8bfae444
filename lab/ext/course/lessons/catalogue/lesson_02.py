"""Lesson 2: a training script that knows nothing of Ray, run on the cluster as a job."""

from __future__ import annotations

import re

from lab.ext.course.lessons.catalogue.training import SUBMIT, above_chance, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed
from lab.services import is_worker
from lab.topology import Check

PART = "plain"
ACCURACY = re.compile(r"val_accuracy\D{1,3}(\d(?:\.\d+)?)")


def ran_on_a_gpu_node(evidence: Evidence) -> Check:
    """The script itself asked for a GPU, and ran on a worker node rather than on the head."""
    name = "it ran on a GPU node"
    job = evidence.job(PART)
    if job is None:
        return failed(name, "no job", SUBMIT)
    service = evidence.service_of(job.node_id)
    gpus = evidence.demands.get(job.submission_id, {}).get("GPU", 0)
    cpus = evidence.demands.get(job.submission_id, {}).get("CPU", 0)
    detail = f"on {service or 'no node'}, asking for {gpus:g} GPU and {cpus:g} CPU"
    hint = f"{SUBMIT}, with --entrypoint-num-gpus 1 --entrypoint-num-cpus 8"
    return answer(is_worker(service) and gpus >= 1, name, detail, hint)


def learned(evidence: Evidence) -> Check:
    """The last accuracy that the job printed is clearly above chance."""
    name = "it learned something"
    printed = ACCURACY.findall(evidence.log(PART))
    if not printed:
        return failed(name, "the job printed no val_accuracy", SUBMIT)
    return above_chance(name, float(printed[-1]))


LESSON = Lesson(
    number=2,
    name="a-job",
    title="A job",
    notebook="02-a-job.ipynb",
    minutes=15,
    checks=(succeeded(PART), ran_on_a_gpu_node, learned),
    needs=("food11",),
)
