"""Lesson 0: a notebook, a terminal, the dashboard, and the first job."""

from __future__ import annotations

import re

from lab.cluster.submission import Submission
from lab.ext.course.lessons.catalogue.training import succeeded
from lab.ext.course.lessons.evidence import read_records
from lab.ext.course.lessons.model import SUBMIT, Evidence, HostTask, Lesson, check, holds, need
from lab.host.clock import poll
from lab.lab import Lab

FIRST, TYPED = "first", "typed"
HELLO = re.compile(r"^hello from (\S+)$", re.MULTILINE)

TYPED_SECONDS = 600.0
"""Timeout for the notebook to say what is to be typed."""


@check("it ran where it says", f"{SUBMIT}, and change nothing in hello.py")
def said_where(evidence: Evidence) -> str:
    """The first job printed the name of the node on which Ray ran it."""
    said = need(HELLO.search(evidence.log(FIRST)), "no job said hello")[1]
    service = evidence.service_of(evidence.submitted(FIRST).node_id)
    return holds(said == service, f"it says {said}, Ray says {service or 'nothing'}")


def type_it(lab: Lab, task: HostTask) -> None:
    """Submit what the notebook asks a student to type in a terminal."""
    begin = task.clock()

    def asked() -> str | None:
        began_at, records = read_records(lab.store, LESSON.number)
        return str(records[TYPED]) if TYPED in records and (began_at or 0) >= begin else None

    job = poll(asked, timeout=TYPED_SECONDS, waited_for="what to type in a terminal", clock=task.clock)
    lab.jobs.submit(Submission(("echo", "typed by hand"), num_cpus=1, submission_id=job))
    task.say(f"typed the command of job {job}")


LESSON = Lesson(
    number=0,
    name="first-steps",
    title="First steps",
    minutes=10,
    checks=(
        succeeded(FIRST, "the first job succeeded"),
        said_where,
        succeeded(TYPED, "the job of the terminal succeeded"),
    ),
    host_task=type_it,
)
