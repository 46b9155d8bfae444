"""A file of the queues that cannot be read is set aside, whole and findable, and the queues start empty."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cluster.queues import WORKLOAD
from lab.cluster.submission import Submission
from lab.daemons.queue.aside import note, open_store, set_aside, set_aside_at
from lab.daemons.queue.controller import Controller
from lab.daemons.queue.packages import Packages
from lab.daemons.queue.reconcile import Reconciler
from lab.daemons.queue.store import FILE, DamagedError, StateStore
from lab.errors import StateError
from tests.unit.daemons.queue.world import AtOnce, ControllerLab, RayJob, Time, queue

NAME = "queue-damaged-20270115T080000.sqlite"
"""The name that a file gets at the time of the tests' clock."""


class QuickStore(StateStore):
    SYNCHRONOUS = "OFF"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the file of a controller that has a queue, a job that runs, and 30 that wait."""
    folder = tmp_path_factory.mktemp("whole")
    world = ControllerLab(folder)
    world.apply(*queue("a", 1))
    for number in range(31):
        world.submit(f"job {number}", work=1000)
    world.run(3)
    assert world._store is not None
    world._store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    world.close()
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path


def execute(folder: Path, statement: str) -> None:
    database = sqlite3.connect(folder / FILE, isolation_level=None)
    database.execute(statement)
    database.close()


def overwrite(folder: Path, at: int, data: bytes) -> None:
    with (folder / FILE).open("r+b") as file:
        file.seek(at)
        file.write(data)


def cut(folder: Path) -> None:
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data[: len(data) // 2 // 4096 * 4096 + 100])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "is no database": lambda folder: (folder / FILE).write_bytes(b"hello" * 1000),
    "a page in its middle": lambda folder: overwrite(folder, 5 * 4096, b"\xff" * 4096),
    "ends too early": cut,
    "a table is missing": lambda folder: execute(folder, "DROP TABLE workloads"),
    "a job is no JSON": lambda folder: execute(folder, "UPDATE workloads SET job = '{' WHERE rowid = 3"),
    "a job lacks a field": lambda folder: execute(folder, "UPDATE workloads SET job = '{}' WHERE rowid = 3"),
    "a queue is of no kind": lambda folder: execute(folder, "UPDATE objects SET document = '{\"kind\": 1}'"),
}


def begin(store: StateStore) -> Controller:
    return Controller(store, Packages(store.path.parent, Time()), clock=Time())


def test_a_field_that_a_job_had_in_an_older_lab_is_passed_over(folder: Path) -> None:
    execute(folder, "UPDATE workloads SET job = json_set(job, '$.lab', '')")
    assert len(open_store(folder, begin, pytest.fail, clock=Time()).records) == 31


def test_what_an_older_lab_kept_of_peoples_own_labs_is_read_and_those_that_went_on_are_over(
    folder: Path,
) -> None:
    mark = "json_set(document, '$.metadata.annotations', json('{\"raylab.io/protected\": \"true\"}'))"
    execute(folder, f"UPDATE workloads SET document = {mark}")
    no_attempt = "job = json_set(job, '$.attempts', json('[]'))"
    execute(folder, f"UPDATE workloads SET {no_attempt} WHERE phase IN ('submitting', 'running')")
    controller = open_store(folder, begin, pytest.fail, clock=Time())
    assert len(controller.records) == 31
    (over,) = [record for record in controller.records.values() if record.phase == "done"]
    assert over.attempt is None
    assert controller.holding == set()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_kept_and_the_queues_begin_anew(folder: Path, damage: str) -> None:
    DAMAGES[damage](folder)
    damaged = (folder / FILE).read_bytes()
    said: list[str] = []

    controller = open_store(folder, begin, said.append, clock=Time())

    assert (controller.records, controller.engine.setup.cluster_queues) == ({}, {})
    assert (folder / NAME).read_bytes()[:100] == damaged[:100]
    assert len((folder / NAME).read_bytes()) == len(damaged)
    assert len(said) == 1
    assert f"kept as {folder / NAME}" in said[0]
    assert set_aside(folder) == (folder / NAME,)
    assert note(folder) == f"the queues started empty: the damaged file is kept as {folder / NAME}"
    assert set_aside_at(folder) == Time()()
    controller._store.close()


@pytest.mark.parametrize("content", [b"hello" * 1000, b""])
def test_the_rest_of_its_journal_stays_with_a_damaged_file(folder: Path, content: bytes) -> None:
    (folder / f"{FILE}-wal").write_bytes(b"what was written last")
    (folder / FILE).write_bytes(content)
    open_store(folder, begin, lambda _: None, clock=Time())._store.close()
    assert (folder / f"{NAME}-wal").read_bytes() == b"what was written last"


def test_a_second_damage_within_a_second_overwrites_nothing(folder: Path) -> None:
    for text in (b"hello", b"olleh"):
        (folder / FILE).write_bytes(text * 1000)
        open_store(folder, begin, lambda _: None, clock=Time())._store.close()
    assert [path.read_bytes()[:5] for path in set_aside(folder)] == [b"hello", b"olleh"]


def test_a_file_that_can_be_read_stays(folder: Path) -> None:
    controller = open_store(folder, begin, pytest.fail, clock=Time())
    assert len(controller.records) == 31
    assert (set_aside(folder), note(folder), set_aside_at(folder)) == ((), "", 0.0)
    controller._store.close()


@pytest.mark.parametrize("why", ["database or disk is full", "disk I/O error", "database is locked"])
def test_what_the_disk_is_to_blame_for_is_no_damage(
    folder: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError(why)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", fail)
        with pytest.raises(StateError, match=why) as caught:
            open_store(folder, begin, pytest.fail, clock=Time())
    assert not isinstance(caught.value, DamagedError)
    assert "--volumes" not in caught.value.hint
    assert set_aside(folder) == ()


def test_the_file_of_a_newer_lab_stays_where_it_is(folder: Path) -> None:
    execute(folder, "PRAGMA user_version = 7")
    with pytest.raises(StateError, match="version 7") as caught:
        open_store(folder, begin, pytest.fail, clock=Time())
    assert f"or set the file aside: mv {folder / FILE} " in caught.value.hint
    assert set_aside(folder) == ()


@pytest.mark.parametrize(("began", "ended"), [(0.0, True), (10.0, False)])
def test_jobs_of_queues_that_began_anew_are_not_ended_as_strangers(
    tmp_path: Path, began: float, ended: bool
) -> None:
    world = ControllerLab(tmp_path, queued_only=True)
    order = Submission(
        ("python",),
        runtime_env={"env_vars": {"GPUS": "1"}},
        submission_id="of-old-queues",
        metadata={WORKLOAD: "ns/old"},
    )
    world.ray.jobs["of-old-queues"] = made = RayJob(order, "ns/old", world.clock(), 1000.0)
    world.reconciler = Reconciler(
        world.controller, world.ray, AtOnce(), began=began and world.clock() + began
    )
    world.run(20)
    assert (made.stopped is not None) == ended
    world.close()
