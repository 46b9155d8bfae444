"""Lesson 14: packages, files and variables that a job brings along; their cost, and where an error shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.ext.course.lessons.catalogue.training import succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, check, holds, need

BARE, FIRST, SECOND, MISSING = "bare", "first", "second", "missing"

NO_MODULE = "No module named 'lesson_greeter'"
NO_PACKAGE = "No matching distribution found for lesson-no-such-package"
"""The last words of pip in Ray's message on that job."""

BEGAN = re.compile(r"^began (\d+\.\d+)$", re.MULTILINE)
VARIABLE = re.compile(r"^GREETING (.+)$", re.MULTILINE)
UNSET = "is not set"
PACKAGE = re.compile(r"^package (\S+) installed (\d+\.\d+) (/.+)$", re.MULTILINE)
"""The lines that job.py prints."""


@dataclass(frozen=True)
class Started:
    """A job of the lesson as its script found things. Times are seconds since the epoch."""

    submitted_at: float
    began_at: float
    installed_at: float
    file: str
    """The package's module on the node."""

    @property
    def waited(self) -> float:
        """Seconds from the submission to the script's first line."""
        return self.began_at - self.submitted_at


def start_of(evidence: Evidence, part: str) -> Started:
    """The start of this part's newest job. Raises NotDoneError where it did not reach its package."""
    job, log, lack = evidence.submitted(part), evidence.log(part), "the job printed no package"
    began, package = need(BEGAN.search(log), lack), need(PACKAGE.search(log), lack)
    return Started(need(job.started_at, lack), float(began[1]), float(package[2]), package[3])


def greeting(evidence: Evidence, part: str) -> str:
    """The value of the variable that this part's job printed."""
    return str(need(VARIABLE.search(evidence.log(part)), "a job printed no GREETING", SUBMIT)[1])


@check("without an environment the package is missing", f"{SUBMIT}; this job gets no --runtime-env")
def missing_without(evidence: Evidence) -> str:
    """The job without an environment began, and failed at the import."""
    job, missed = evidence.submitted(BARE), NO_MODULE in evidence.log(BARE)
    seen = f"{job.submission_id} is {job.status}{f': {NO_MODULE}' if missed else ''}"
    return holds(job.status == "FAILED" and missed, seen)


@check("the package is in the job's environment", "install nothing into the lab itself")
def own_package(evidence: Evidence) -> str:
    """The package came from an environment that was made for the job, not from the lab's own packages."""
    file = start_of(evidence, FIRST).file
    return holds("/virtualenv/" in file, file)


@check("the variable is the job's own", "name it in env_vars of runtime.json only")
def own_variable(evidence: Evidence) -> str:
    """The variable was set in the job that names it, and in no other."""
    named, other = greeting(evidence, FIRST), greeting(evidence, BARE)
    return holds(named != UNSET and other == UNSET, f"{named!r} with env_vars, {other!r} without")


@check("the environment was made once")
def made_once(evidence: Evidence) -> str:
    """The environment was made for the first job and was there when the second was submitted."""
    first, second = start_of(evidence, FIRST), start_of(evidence, SECOND)
    holds(
        first.file == second.file, "the second job got another one", "submit both with the same runtime.json"
    )
    own = first.submitted_at <= first.installed_at <= second.submitted_at
    holds(own, "it was not made for the first job")
    return f"{first.waited:.1f} s to start with it, then {second.waited:.1f} s"


@check("a package that does not exist stops the job before it begins", f"{SUBMIT}, with missing.json")
def never_began(evidence: Evidence) -> str:
    """It failed before its script began, and its message says why."""
    job = evidence.submitted(MISSING)
    where = evidence.service_of(job.node_id)
    failed = job.status == "FAILED" and not job.node_id and job.exit_code is None
    holds(failed, f"{job.submission_id} is {job.status}{f', on {where}' if where else ''}")
    holds(NO_PACKAGE in job.message, job.message[:160], "read its message, then try again")
    return NO_PACKAGE


LESSON = Lesson(
    number=14,
    name="runtime-environments",
    title="Runtime environments",
    minutes=10,
    checks=(
        missing_without,
        succeeded(FIRST, "the job with an environment succeeded"),
        own_package,
        own_variable,
        succeeded(SECOND, "the second job succeeded"),
        made_once,
        never_began,
    ),
)
