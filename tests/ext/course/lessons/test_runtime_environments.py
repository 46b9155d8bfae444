"""Lesson 14: what its checks make of four jobs, and of some that were done otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from lab.ext.course.lessons.catalogue.lesson_14 import LESSON, NO_MODULE, NO_PACKAGE, made_once
from lab.ext.course.lessons.model import Evidence
from tests.ext.course.lessons.world import AT, evidence, failing, job, name

BARE, FIRST, SECOND, MISSING = (name(14, part) for part in ("bare", "first", "second", "missing"))
FILE = "/tmp/ray/resources/pip/5f1d/virtualenv/lib/python3.12/site-packages/lesson_greeter.py"


def log(began: float, installed: float, file: str = FILE, greeting: str = "hello") -> str:
    return f"began {began}\nfolder /tmp/x\nGREETING {greeting}\npackage 1.7 installed {installed} {file}\n"


LOGS = {
    BARE: f"began {AT + 12.5}\nfolder /tmp/x\nGREETING is not set\nModuleNotFoundError: {NO_MODULE}\n",
    FIRST: log(AT + 16.5, AT + 15.0),
    SECOND: log(AT + 32.5, AT + 15.0),
}


def done(logs: Any = None, *, drop: str = "", **changes: Any) -> Evidence:
    """The lesson as its notebook does it; a key of `changes` is a part, its value what differs in its job."""
    jobs = {
        SECOND: job(SECOND, **{"started_at": AT + 31, "seconds": 30.0, **changes.get("second", {})}),
        FIRST: job(FIRST, **changes.get("first", {})),
        BARE: job(BARE, **{"status": "FAILED", "exit_code": 1, **changes.get("bare", {})}),
        MISSING: job(
            MISSING,
            **{
                "status": "FAILED",
                "node_id": "",
                "exit_code": None,
                "message": f"runtime_env setup failed: ...\nERROR: {NO_PACKAGE}\n",
                **changes.get("missing", {}),
            },
        ),
    }
    kept = [job for job in jobs.values() if job.submission_id != drop]
    return evidence(14, *kept, logs={**LOGS, **(logs or {})})


def test_the_lesson_as_its_notebook_does_it_passes() -> None:
    assert failing(LESSON, done()) == []


def test_nothing_done_fails_every_check() -> None:
    assert len(failing(LESSON, evidence(14))) == len(LESSON.checks)


WITHOUT = "without an environment the package is missing"
FIRST_JOB = "the job with an environment succeeded"
OWN, SET = "the package is in the job's environment", "the variable is the job's own"
MADE = "the environment was made once"
STOPS = "a package that does not exist stops the job before it begins"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        # the package was installed into the lab itself, or the first job had an environment as well
        ({"logs": {BARE: LOGS[FIRST]}, "bare": {"status": "SUCCEEDED"}}, [WITHOUT, SET]),
        # it failed of something else
        ({"logs": {BARE: "GREETING is not set\nSyntaxError: invalid syntax\n"}}, [WITHOUT]),
        ({"logs": {FIRST: log(AT + 16, AT + 15, "/lab/.venv/lib/lesson_greeter.py")}}, [OWN, MADE]),
        ({"logs": {FIRST: log(AT + 16, AT + 15, greeting="is not set")}}, [SET]),
        ({"logs": {FIRST: ""}, "first": {"status": "FAILED"}}, [FIRST_JOB, OWN, SET, MADE]),
        # another list of packages; one that was there before; one that was made for the second job
        ({"logs": {SECOND: log(AT + 33, AT + 32, FILE.replace("5f1d", "77aa"))}}, [MADE]),
        ({"logs": {FIRST: log(AT + 16, AT - 900), SECOND: log(AT + 33, AT - 900)}}, [MADE]),
        ({"logs": {FIRST: log(AT + 40, AT + 39), SECOND: log(AT + 41, AT + 39)}}, [MADE]),
        # it was submitted without missing.json, was stopped, or still waits
        ({"missing": {"node_id": "id-of-ray-head", "exit_code": 1}}, [STOPS]),
        ({"missing": {"status": "STOPPED"}}, [STOPS]),
        ({"missing": {"status": "PENDING"}}, [STOPS]),
        ({"missing": {"message": "the head is out of memory"}}, [STOPS]),
        ({"drop": MISSING}, [STOPS]),
    ],
)
def test_what_was_done_otherwise_is_noticed(change: Any, wrong: list[str]) -> None:
    assert failing(LESSON, done(**change)) == wrong


def test_the_seconds_of_both_starts_are_told() -> None:
    assert made_once(done()).detail == "6.5 s to start with it, then 1.5 s"
