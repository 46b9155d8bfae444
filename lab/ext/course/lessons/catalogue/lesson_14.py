"""Lesson 14: packages, files and variables that a job brings along; their cost, and where an error shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.ext.course.lessons.catalogue.training import SUBMIT, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed, job_prefix
from lab.topology import Check

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


def start_of(evidence: Evidence, part: str) -> Started | None:
    """The start of this part's newest job; None where it did not get as far as its package."""
    job, log = evidence.job(part), evidence.log(part)
    began, package = BEGAN.search(log), PACKAGE.search(log)
    if job is None or job.started_at is None or not began or not package:
        return None
    return Started(job.started_at, float(began[1]), float(package[2]), package[3])


def greeting(evidence: Evidence, part: str) -> str:
    """The value of the variable that this part's job printed; empty where it printed none."""
    line = VARIABLE.search(evidence.log(part))
    return line[1] if line else ""


def missing_without(evidence: Evidence) -> Check:
    """The job without an environment began, and failed at the import."""
    name = "without an environment the package is missing"
    job = evidence.job(BARE)
    if job is None:
        return failed(name, f"there is no job {job_prefix(evidence.lesson)}{BARE}-...", SUBMIT)
    missed = NO_MODULE in evidence.log(BARE)
    seen = f"{job.submission_id} is {job.status}{f': {NO_MODULE}' if missed else ''}"
    hint = f"{SUBMIT}; this job gets no --runtime-env"
    return answer(job.status == "FAILED" and missed, name, seen, hint)


def own_package(evidence: Evidence) -> Check:
    """The package came from an environment that was made for the job, not from the lab's own packages."""
    name = "the package is in the job's environment"
    start = start_of(evidence, FIRST)
    if start is None:
        return failed(name, "the job printed no package", SUBMIT)
    return answer("/virtualenv/" in start.file, name, start.file, "install nothing into the lab itself")


def own_variable(evidence: Evidence) -> Check:
    """The variable was set in the job that names it, and in no other."""
    name = "the variable is the job's own"
    named, other = greeting(evidence, FIRST), greeting(evidence, BARE)
    if not named or not other:
        return failed(name, "a job printed no GREETING", SUBMIT)
    seen = f"{named!r} with env_vars, {other!r} without"
    return answer(named != UNSET and other == UNSET, name, seen, "name it in env_vars of runtime.json only")


def made_once(evidence: Evidence) -> Check:
    """The environment was made for the first job and was there when the second was submitted."""
    name = "the environment was made once"
    first, second = start_of(evidence, FIRST), start_of(evidence, SECOND)
    if first is None or second is None:
        return failed(name, "both jobs have to print their package", SUBMIT)
    if first.file != second.file:
        return failed(name, "the second job got another one", "submit both with the same runtime.json")
    if not first.submitted_at <= first.installed_at <= second.submitted_at:
        return failed(name, "it was not made for the first job", SUBMIT)
    return answer(True, name, f"{first.waited:.1f} s to start with it, then {second.waited:.1f} s")


def never_began(evidence: Evidence) -> Check:
    """The job with a package that does not exist failed before its script began, and its message says why."""
    name = "a package that does not exist stops the job before it begins"
    job = evidence.job(MISSING)
    if job is None:
        return failed(name, f"there is no job {job_prefix(evidence.lesson)}{MISSING}-...", SUBMIT)
    if job.status != "FAILED" or job.node_id or job.exit_code is not None:
        where = evidence.service_of(job.node_id)
        seen = f"{job.submission_id} is {job.status}{f', on {where}' if where else ''}"
        return failed(name, seen, f"{SUBMIT}, with missing.json")
    said = NO_PACKAGE in job.message
    return answer(said, name, NO_PACKAGE if said else job.message[:160], "read its message, then try again")


LESSON = Lesson(
    number=14,
    name="runtime-environments",
    title="Runtime environments",
    notebook="14-runtime-environments.ipynb",
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
