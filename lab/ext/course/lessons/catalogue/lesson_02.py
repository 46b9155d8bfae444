"""Lesson 2: a training script that knows nothing of Ray, run on the cluster as a job."""

from __future__ import annotations

import re

from lab.ext.course.lessons.catalogue.training import above_chance, succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, NotDoneError, check, holds
from lab.services import is_worker

PART = "plain"
ACCURACY = re.compile(r"val_accuracy\D{1,3}(\d(?:\.\d+)?)")


@check("it ran on a GPU node", f"{SUBMIT}, with --entrypoint-num-gpus 1 --entrypoint-num-cpus 8")
def ran_on_a_gpu_node(evidence: Evidence) -> str:
    """The script itself asked for a GPU, and ran on a worker node rather than on the head."""
    service = evidence.service_of(evidence.submitted(PART).node_id)
    gpus, cpus = (evidence.demand(PART).get(resource, 0) for resource in ("GPU", "CPU"))
    detail = f"on {service or 'no node'}, asking for {gpus:g} GPU and {cpus:g} CPU"
    return holds(is_worker(service) and gpus >= 1, detail)


@check("it learned something")
def learned(evidence: Evidence) -> str:
    """The last accuracy that the job printed is clearly above chance."""
    printed = ACCURACY.findall(evidence.log(PART))
    if not printed:
        raise NotDoneError("the job printed no val_accuracy")
    return above_chance(float(printed[-1]))


LESSON = Lesson(
    number=2,
    name="a-job",
    title="A job",
    minutes=15,
    checks=(succeeded(PART), ran_on_a_gpu_node, learned),
    needs=("food11",),
)
