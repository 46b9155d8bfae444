"""A class of many at work: what a kill takes from nobody, and what thirty people need.

The size of the second is $RAYLAB_CLASS_SIZE, or 30; its numbers are printed:
`labctl test --e2e --all -k thirty -- -s`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from lab.services import GATEWAY, HUB, PROXY, QUEUE
from tests.e2e.browser import Browser, processes_of
from tests.e2e.classes import Course
from tests.e2e.harness import PATIENCE, Bench
from tests.waiting import eventually

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")

WORKERS = 10
SERVICES = (PROXY, HUB, GATEWAY, QUEUE)

PEOPLE = int(os.environ.get("RAYLAB_CLASS_SIZE", "30"))
SIGN_IN_SECONDS, PAGE_SECONDS, IDLE_BYTES = 60.0, 3.0, 4 << 30
"""Bounds for thirty: until all are signed in, of the 95th percentile of a page, of all idle servers."""

LOOK_SECONDS = 3.0
"""Pause of a person between two pages."""


@pytest.mark.rare
def test_a_kill_takes_nothing_from_the_others(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    bench = make_bench()
    course = Course(bench, "--count", str(WORKERS))
    course.all(course.sign_in)
    course.all(lambda person: person.open_lab(LOOK_SECONDS))
    course.all(lambda person: person.api("POST", "kernels", {"name": "python3"}))
    course.all(lambda person: course.submit(person.name, "long", "sleep 3600"))
    eventually(lambda: len(course.attempts()) == WORKERS, PATIENCE, "everybody's job runs")
    eventually(lambda: all(map(len, course.kernels().values())), PATIENCE, "everybody has a kernel")
    kernels, attempts = course.kernels(), course.attempts()

    for service in SERVICES:
        with _submitting(course, service, tmp_path):
            os.kill(bench.leaders()[service][0], signal.SIGKILL)
            bench.labctl("up", timeout=2 * PATIENCE)
        _check_work(course, service, tmp_path)
        assert course.kernels() == kernels, service
        assert {job: course.attempts()[job] for job in attempts} == attempts, service

    first, *others = course.people
    with _submitting(course, "server", tmp_path):
        os.kill(course.server(first), signal.SIGKILL)
        eventually(lambda: not processes_of(course.mark(first)), PATIENCE, "what is left of it ends")
        eventually(lambda: _reopened(course.people[first]), PATIENCE, "her server starts again")
    _check_work(course, "server", tmp_path)
    assert {name: course.kernels()[name] for name in others} == {name: kernels[name] for name in others}
    assert {job: course.attempts()[job] for job in attempts} == attempts


@contextlib.contextmanager
def _submitting(course: Course, victim: str, folder: Path) -> Iterator[None]:
    """Let everybody submit a job while something is killed, again and again until it is taken."""
    begun = threading.Barrier(len(course.people) + 1)

    def submit(name: str) -> None:
        job, script = f"during-{victim}", f"echo ran >> {folder / f'{name}-{victim}'}"
        begun.wait()

        def taken() -> bool:
            answer = course.submit(name, job, script)
            return answer.ok or "is taken" in answer.text

        eventually(taken, PATIENCE, f"{name}'s job is taken while {victim} is killed")

    threads = [threading.Thread(target=submit, args=(name,)) for name in course.people]
    for thread in threads:
        thread.start()
    begun.wait()
    yield
    for thread in threads:
        thread.join()


def _check_work(course: Course, victim: str, folder: Path) -> None:
    """Everybody is still signed in, and the job of each has run once."""

    def all_ran() -> bool:
        return all((folder / f"{name}-{victim}").exists() for name in course.people)

    eventually(all_ran, PATIENCE, f"every job that was submitted while {victim} was killed runs")
    lines = {name: (folder / f"{name}-{victim}").read_text().count("ran") for name in course.people}
    assert lines == dict.fromkeys(course.people, 1), victim
    made = course.attempts()
    assert {name: len(made[f"{name}/{name}-during-{victim}"]) for name in course.people} == lines
    eventually(lambda: all(course.all(_at_work).values()), PATIENCE, f"all are signed in after {victim}")


def _at_work(person: Browser) -> bool:
    """Whether somebody is signed in everywhere, and her JupyterLab answers."""
    page = person.get("/class/now")
    return person.signed_in and page.ok and isinstance(person.kernels(), list)


def _reopened(person: Browser) -> bool:
    """Whether a JupyterLab that was ended is there again, without signing in."""
    return person.signed_in and person.get("/hub/spawn").url.endswith(f"/user/{person.name}/lab")


@dataclass
class Pages:
    """Seconds that pages took, and what was refused."""

    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def look(self, person: Browser, path: str) -> None:
        """Open a page."""
        begin = time.monotonic()
        try:
            answer = person.get(path)
            if not answer.ok or "/hub/login" in answer.url:
                self.failed.append(f"{path}: {answer.status_code} {answer.url}")
        except requests.RequestException as error:
            self.failed.append(f"{path}: {error}")
        self.seconds.append(time.monotonic() - begin)

    @property
    def slow(self) -> float:
        """The 95th percentile, in seconds."""
        return statistics.quantiles(self.seconds, n=20)[-1]


@pytest.mark.rare
def test_thirty_people(make_bench: Callable[[], Bench]) -> None:
    course, pages = Course(make_bench(), "--count", str(PEOPLE)), Pages()
    begin = time.monotonic()
    course.all(course.sign_in)
    signed_in = time.monotonic() - begin
    course.all(lambda person: person.open_lab(LOOK_SECONDS))
    opened = time.monotonic() - begin
    idle = sum(p.memory_full_info().pss for name in course.people for p in processes_of(course.mark(name)))

    with _looking(course, pages):
        submitted = course.all(_submit)
    ended = time.monotonic() - begin
    owners = {
        name: name in (line.strip() for line in printed.splitlines())
        for name, (_, printed) in submitted.items()
    }
    numbers = {
        "people": PEOPLE,
        "sign_in_s": round(signed_in, 1),
        "servers_up_s": round(opened, 1),
        "all_jobs_ended_s": round(ended, 1),
        "pages": len(pages.seconds),
        "page_p95_s": round(pages.slow, 2),
        "page_longest_s": round(max(pages.seconds), 2),
        "failed_requests": len(pages.failed),
        "idle_servers_gib": round(idle / (1 << 30), 2),
    }
    print(json.dumps(numbers, indent=1))
    assert pages.failed == []
    assert {name: code for name, (code, _) in submitted.items()} == dict.fromkeys(course.people, 0), submitted
    assert owners == dict.fromkeys(course.people, True), submitted
    within = (signed_in <= SIGN_IN_SECONDS, pages.slow <= PAGE_SECONDS, idle <= IDLE_BYTES)
    assert within == (True, True, True), numbers


def _submit(person: Browser) -> tuple[int, str]:
    """Type `ray job submit` in her terminal, and wait for the job's end: exit code, and what is printed."""
    return person.type("ray job submit -- printenv RAYLAB_PERSON")


@contextlib.contextmanager
def _looking(course: Course, pages: Pages) -> Iterator[None]:
    """Let everybody look at pages meanwhile."""
    over = threading.Event()

    def look(person: Browser) -> None:
        other = course.browser(person.name)
        other.session.cookies.update(person.session.cookies)
        while not over.is_set():
            for path in ("/hub/home", f"/user/{person.name}/lab", "/class/"):
                pages.look(other, path)
                over.wait(LOOK_SECONDS)

    threads = [threading.Thread(target=look, args=(person,)) for person in course.people.values()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
