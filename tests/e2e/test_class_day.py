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
from typing import Any

import psutil
import pytest

from lab.daemons.queue.model import DONE
from lab.people.policy import Role
from lab.people.registry import Newcomer
from tests.unit.daemons.gateway.classes import Class, local_queue
from tests.unit.daemons.queue.world import queue

PEOPLE, LESSONS, LESSON_SECONDS, PAUSE_SECONDS = 200, 5, 2 * 3600, 1800
LATE_SECONDS = 900
"""Time within which the people of a lesson come."""

JOBS_OF_ONE, JOB_SECONDS = 4, (20.0, 240.0)
LOOKS_OF_ONE = 1
STEP_SECONDS = 15.0
KEPT_JOBS = 250
"""Jobs that the queues keep after their end, here fewer than else: the limit is reached before noon."""

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
        modules = (str(type(one).__module__) for one in gc.get_objects())
        objects = sum(module.startswith(("lab.", "kueue.")) for module in modules)
        memory = psutil.Process().memory_info().rss
        files = [path for path in folder.rglob("*") if path.is_file()]
        return cls(ended, objects, memory, len(files), sum(path.stat().st_size for path in files))


def room() -> dict[str, Any]:
    """A ClusterQueue in which all who are there can run a job."""
    cluster_queue = queue("class", 1)[1]
    resources = [{"name": "cpu", "nominalQuota": 64}, {"name": "nvidia.com/gpu", "nominalQuota": 2}]
    flavor = {"name": "h100", "resources": resources}
    group = {"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [flavor]}
    cluster_queue["spec"]["resourceGroups"] = [group]
    return cluster_queue


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
    world.apply(room(), *map(local_queue, names))
    world.controller.most_finished = KEPT_JOBS
    acts, begin, began = list(timetable(names, chance)), world.clock(), time.monotonic()
    slowest, submitted, stopped = 0.0, 0, 0
    full: Kept | None = None
    while acts or world.ray.living():
        while acts and acts[0][0] <= world.clock() - begin:
            _, person, act = acts.pop(0)
            asked = time.monotonic()
            if act == "submit":
                school.submit(person, f"job{submitted}", chance.uniform(*JOB_SECONDS))
                submitted += 1
            elif act == "stop":
                mine = [
                    r for r in school.ok(person, "GET", "/workloads")["workloads"] if r["namespace"] == person
                ]
                for row in mine:
                    stopped += school.ok(person, "POST", f"/api/jobs/{row['name']}/stop")["stopped"]
            else:
                assert all(school.ask(person, "GET", page).good for page in LOOKED_AT)
            slowest = max(slowest, time.monotonic() - asked)
        world.clock.now += STEP_SECONDS
        world.do(world._step)
        forgotten = world.clock() - FORGOTTEN_SECONDS
        for job in [name for name, one in world.ray.jobs.items() if one.created < forgotten]:
            del world.ray.jobs[job]
        world.ray.submitted.clear()
        ended = submitted - sum(one.phase != DONE for one in world.controller.records.values())
        if full is None and ended >= KEPT_JOBS + PEOPLE // 4:
            full = Kept.now(tmp_path, ended)
    assert full is not None
    evening = Kept.now(tmp_path, submitted)
    numbers = {
        "people": PEOPLE,
        "jobs": submitted,
        "stopped": stopped,
        "hours": round((world.clock() - begin) / 3600, 1),
        "seconds": round(time.monotonic() - began),
        "slowest_request_s": round(slowest, 2),
        "kept_at_noon": vars(full),
        "kept_in_the_evening": vars(evening),
    }
    print(json.dumps(numbers, indent=1))
    assert submitted == PEOPLE * JOBS_OF_ONE
    assert all(one.phase == DONE for one in world.controller.records.values())
    kept = len(world.controller.records)
    assert kept <= 2 * KEPT_JOBS, kept
    assert evening.objects <= SLACK * full.objects, numbers
    assert evening.memory <= SLACK * full.memory, numbers
    assert evening.bytes_of_files <= min(MOST_BYTES_OF_FILES, SLACK * full.bytes_of_files), numbers
    assert evening.files <= full.files + 1, numbers
