"""What is gathered for the checks of a lesson, and what does not count."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab.api.base import plain
from lab.api.queue import PodSetView
from lab.errors import ClusterError, LabDownError, UnsupportedError
from lab.ext.course.lessons.catalogue import find_lesson
from lab.ext.course.lessons.evidence import gather, read_records, records_key, with_own_store, write_records
from lab.lab import Lab
from lab.runtime.classroom import ClassView
from lab.store import ObjectStore
from tests.conftest import ROOT
from tests.ext.course.lessons.world import AT, LessonLab, job, name
from tests.unit.cli.fakes import receipt


@pytest.fixture
def world() -> LessonLab:
    return LessonLab()


def test_only_jobs_of_this_lesson_since_it_began_count(world: LessonLab) -> None:
    write_records(world.store, 2, AT, {})
    for other in (
        job(name(2, "plain")),
        job(name(2, "plain", "20270115-070000"), started_at=AT - 600),
        job(name(3, "plain")),
        job("lesson-02"),
        job("raysubmit_abc", "RUNNING"),
    ):
        world.jobs.add(other, f"log of {other.submission_id}")
    gathered = gather(world.lab, find_lesson(2))
    assert [job.submission_id for job in gathered.jobs] == [name(2, "plain")]
    assert gathered.logs == {name(2, "plain"): f"log of {name(2, 'plain')}"}
    assert set(gathered.histories) == {name(2, "plain")}
    assert gathered.running == ("raysubmit_abc",)
    assert (gathered.began_at, gathered.ray_version) == (AT, "2.60.0")
    assert gathered.status.name == "raylab"


def test_what_an_entrypoint_asked_for_is_known_though_it_has_ended(world: LessonLab) -> None:
    world.jobs.add(job(name(3, "infeasible"), "FAILED"))
    world.api.demands = {name(3, "infeasible"): {"GPU": 2.0, "CPU": 8.0}, "other": {"CPU": 1.0}}
    gathered = gather(world.lab, find_lesson(3))
    assert gathered.demands == {name(3, "infeasible"): {"GPU": 2.0, "CPU": 8.0}}


def test_receipts_of_the_lessons_jobs_are_read_oldest_first(world: LessonLab) -> None:
    mine = name(2, "plain")
    world.jobs.add(job(mine))
    for key, verdict in ((f"{mine}-100", "failed"), (f"{mine}-200", "recovered"), ("other-300", "recovered")):
        world.clock.sleep(1)
        world.store.put(f".raylab/receipts/{key}.json", json.dumps(plain(receipt(verdict))).encode())
    gathered = gather(world.lab, find_lesson(2))
    assert [receipt.verdict.value for receipt in gathered.receipts] == ["failed", "recovered"]


def test_objects_of_the_runs_and_of_the_lesson_are_listed(world: LessonLab) -> None:
    mine = name(2, "plain")
    world.jobs.add(job(mine))
    write_records(world.store, 2, AT, {})
    ledger = ROOT / "tests" / "unit" / "data" / "ledger_kill.jsonl"
    world.store.put(f".raylab/ledger/{mine}/a.jsonl", ledger.read_bytes())
    run = gather(world.lab, find_lesson(2)).histories[mine].runs[0]
    saved = run.checkpoints[0].uri.removeprefix("s3://ray/")
    world.store.put(f"{saved}/checkpoint.ckpt", b"weights")
    world.store.put("elsewhere/checkpoint_1/checkpoint.ckpt", b"weights")
    gathered = gather(world.lab, find_lesson(2))
    assert gathered.store_objects == (records_key(2), f"{saved}/checkpoint.ckpt")


@pytest.mark.parametrize(
    "data", [b"", b"no JSON", b"[]", b'{"records": 5, "began_at": 1}', b'{"records": {}}']
)
def test_damaged_records_are_none(world: LessonLab, data: bytes) -> None:
    world.store.put(records_key(2), data)
    assert read_records(world.store, 2) == (None, {})


def test_a_list_of_actors_of_another_shape_is_an_error(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.jobs.add(job(name(2, "plain")))
    monkeypatch.setattr(
        world.api, "get", lambda path: {"data": None} if "actors" in path else {"ray_version": "2.60.0"}
    )
    with pytest.raises(ClusterError, match="actors"):
        gather(world.lab, find_lesson(2))


def test_a_lab_that_is_down_has_no_evidence() -> None:
    world = LessonLab(up=False)
    with pytest.raises(LabDownError):
        gather(Lab(world.runtime, api=world.api, jobs=world.jobs), find_lesson(2))


def test_the_jobs_of_a_person_of_a_class_are_those_that_are_called_like_her(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A student may not read Ray's actors: what her job asked for is known to its queue."""
    monkeypatch.setattr(type(world.lab.view), "person", "ann")
    anns, bens = f"ann-{name(2, 'plain')}", f"ben-{name(2, 'plain')}"
    for job_name in (anns, bens, name(2, "plain")):
        world.jobs.add(job(job_name))
    asked = (PodSetView("driver", 1, None, {"cpu": 8, "nvidia.com/gpu": 1}),)
    queued = {anns: SimpleNamespace(pod_sets=asked)}
    monkeypatch.setattr(world.lab, "queues", SimpleNamespace(describe=queued.__getitem__))
    seen = gather(world.lab, find_lesson(2))
    assert [job.submission_id for job in seen.jobs] == [anns]
    assert seen.demands == {anns: {"CPU": 8.0, "GPU": 1.0}}
    assert (mine := seen.job("plain")) is not None
    assert mine.submission_id == anns


def test_a_person_of_a_class_has_the_times_of_the_queues_beside_those_of_ray(
    world: LessonLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list for notebooks and that of Ray are two: another start, another end, and jobs that never ran."""
    monkeypatch.setattr(type(world.lab.view), "person", "ann")
    hers, waited = job(f"ann-{name(2, 'plain')}"), job(f"ann-{name(2, 'stopped')}", "STOPPED")
    world.jobs.add(hers)
    queued = (replace(hers, started_at=AT + 1), replace(hers, submission_id="ann-other"), waited)
    monkeypatch.setattr(
        "lab.ext.course.lessons.evidence.with_queued_jobs",
        lambda _: SimpleNamespace(jobs=SimpleNamespace(list=lambda: queued)),
    )
    monkeypatch.setattr("lab.ext.course.lessons.evidence.queued_demand", lambda *_: {})
    seen = gather(world.lab, find_lesson(2))
    assert seen.jobs == (hers, waited)
    assert seen.queued == (queued[0], waited)
    assert seen.in_notebook("plain") == queued[0]


def test_the_store_of_a_lesson_in_a_class_is_reached_with_the_persons_own_key() -> None:
    gateway = {"RAY_ADDRESS": "http://127.0.0.1:8280", "RAY_AUTH_TOKEN": "t"}
    lab = Lab(ClassView("raylab", gateway))
    own = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "RAYLAB_STORAGE": "s3://ray/people/ann"}
    keys = {"AWS_ACCESS_KEY_ID": "ann", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert isinstance(with_own_store(lab, {**own, **keys}).store, ObjectStore)
    for lacking in ({}, own, keys, {**keys, "AWS_ENDPOINT_URL": "http://elsewhere"}):
        with pytest.raises(UnsupportedError, match="key of the object store"):
            with_own_store(lab, lacking)


def test_the_store_of_ones_own_lab_is_the_labs(world: LessonLab) -> None:
    assert with_own_store(world.lab, {}) is world.lab


@pytest.mark.parametrize("answers", [None, "text", {"1": 7}, [1]])
def test_answers_that_are_no_texts_are_none(world: LessonLab, answers: object) -> None:
    write_records(world.store, 2, AT, {"answers": answers, "seconds": 3})
    seen = gather(world.lab, find_lesson(2))
    assert (seen.answers, seen.records) == ({}, {"seconds": 3})
