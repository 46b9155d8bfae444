"""A day of a class of two hundred, by a timetable: gateway and queues, over a Ray and a clock of the tests.

Its numbers are printed: `labctl test --e2e --all -k day -- -s`.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from lab.daemons.queue.retention import MOST_FINISHED
from lab.people.policy import Role
from lab.people.registry import Newcomer
from tests.unit.daemons.gateway.classes import Class, local_queue
from tests.unit.daemons.queue.world import queue

PEOPLE, LESSONS, LESSON_SECONDS, PAUSE_SECONDS = 200, 5, 2 * 3600, 1800
LATE_SECONDS = 900
"""Time within which the people of a lesson come."""

JOBS_OF_ONE, JOB_SECONDS = 24, (20.0, 240.0)
LOOKS_OF_ONE = 2
STEP_SECONDS = 15.0
FORGOTTEN_SECONDS = 3600.0
"""Age at which the Ray of the tests forgets a job that has ended."""

LOOKED_AT = ("/workloads", "/queues", "/objects", "/events?since=0", "/api/jobs/")
SLACK = 1.15
"""Most that may be kept in the evening, of what was kept once as many jobs had ended as the queues keep."""

MOST_BYTES_OF_FILES = 64 << 20


@dataclass(frozen=True)
class Kept:
    """What gateway and queues hold."""

    ended: int
    objects: int
    """Living objects of the lab's own classes."""
    memory: int
    """Bytes of this process."""
    files: int
    bytes_of_files: int

    @classmethod
    def now(cls, folder: Path, ended: int) -> Kept:
        gc.collect()
        objects = sum(type(one).__module__.startswith(("lab.", "kueue.")) for one in gc.get_objects())
        memory = psutil.Process().memory_info().rss
        files = [path for path in folder.rglob("*") if path.is_file()]
        return cls(ended, objects, memory, len(files), sum(path.stat().st_size for path in files))


def timetable(people: list[str], chance: random.Random) -> Iterator[tuple[float, str, str]]:
    """Second of the day, person, and what she does: her lesson's time, in the order of the day."""
    acts = []
    for number, person in enumerate(people):
        begin = (number * LESSONS // len(people)) * (LESSON_SECONDS + PAUSE_SECONDS)
        came = begin + chance.uniform(0, LATE_SECONDS)
        for act, count in (("submit", JOBS_OF_ONE), ("look", LOOKS_OF_ONE), ("stop", 1)):
            acts += [(chance.uniform(came, begin + LESSON_SECONDS), person, act) for _ in range(count)]
    return iter(sorted(acts))


@pytest.mark.rare
def test_nothing_grows_without_limit(tmp_path: Path) -> None:
    school, chance = Class(tmp_path), random.Random(34)
    world, names = school.world, [f"s{number}" for number in range(PEOPLE)]
    invited = school.registry.invite([Newcomer(name, Role.STUDENT) for name in names])
    school.registry.add([one.person for one in invited])
    roomy = queue("class", 64)[1]
    world.apply(roomy, *map(local_queue, names))
    acts, begin, began = list(timetable(names, chance)), world.clock(), time.monotonic()
    refused, slowest, submitted = 0, 0.0, 0
    full: Kept | None = None
    while acts or world.ray.living():
        while acts and acts[0][0] <= world.clock() - begin:
            _, person, act = acts.pop(0)
            asked = time.monotonic()
            if act == "submit":
                school.submit(person, f"job{submitted}", chance.uniform(*JOB_SECONDS))
                submitted += 1
            elif act == "stop":
                refused += not school.ask(person, "POST", f"/api/jobs/{person}-job{submitted - 1}/stop").good
            else:
                assert all(school.ask(person, "GET", page).good for page in LOOKED_AT)
            slowest = max(slowest, time.monotonic() - asked)
        world.clock.now += STEP_SECONDS
        world.do(world._step)
        forgotten = world.clock() - FORGOTTEN_SECONDS
        for job in [name for name, one in world.ray.jobs.items() if one.created < forgotten]:
            del world.ray.jobs[job]
        world.ray.submitted.clear()
        ended = submitted - len(world.ray.living())
        if full is None and ended >= MOST_FINISHED + PEOPLE:
            full = Kept.now(tmp_path, ended)
    assert full is not None
    evening = Kept.now(tmp_path, submitted)
    numbers = {
        "people": PEOPLE,
        "jobs": submitted,
        "hours": round((world.clock() - begin) / 3600, 1),
        "seconds": round(time.monotonic() - began),
        "slowest_request_s": round(slowest, 2),
        "kept_at_noon": vars(full),
        "kept_in_the_evening": vars(evening),
    }
    print(json.dumps(numbers, indent=1))
    assert submitted == PEOPLE * JOBS_OF_ONE
    assert len(world.controller.records) <= MOST_FINISHED + 1
    assert evening.objects <= SLACK * full.objects, numbers
    assert evening.memory <= SLACK * full.memory, numbers
    assert evening.bytes_of_files <= min(MOST_BYTES_OF_FILES, SLACK * full.bytes_of_files), numbers
    assert evening.files <= full.files + 1, numbers
