"""labctl class: people come and go with queue and token."""

from __future__ import annotations

import csv
import stat
from pathlib import Path

import pytest

from lab.people.registry import FOLDER, Registry
from lab.topology import LabSpec
from tests.unit.cli.fakes import PLAN, Labctl
from tests.unit.cli.queues import QueueWorld


class School:
    """labctl on a lab that is up for a class."""

    def __init__(self, labctl: Labctl, folder: Path) -> None:
        labctl.runtime.down()
        labctl.runtime.up(LabSpec(gpu=PLAN, classroom=True))
        self.labctl, self.world = labctl, QueueWorld(labctl, folder)
        labctl._patch.setattr(labctl.store, "ping", lambda: "moto 5")

    @property
    def registry(self) -> Registry:
        return Registry(self.labctl.runtime.folder() / FOLDER)

    @property
    def queues(self) -> set[tuple[str, str]]:
        return set(self.world.controller.setup.local_queues)

    def submit(self, person: str, name: str) -> None:
        self.labctl.ok(
            "submit", "--queue", f"{person}/default", "--job-name", name, "--num-cpus", "1", "--detach",
            "--", "true",
        )  # fmt: skip


@pytest.fixture
def school(labctl: Labctl, tmp_path: Path) -> School:
    return School(labctl, tmp_path / "queue")


def test_people_get_tokens_and_queues(school: School) -> None:
    handed = school.labctl.json("class", "add", "ann", "ben")
    assert [one["name"] for one in handed["people"]] == ["ann", "ben"]
    for one in handed["people"]:
        person = school.registry.bearer(one["token"])
        assert person is not None
        assert (person.name, person.role.value) == (one["name"], "student")
    assert school.queues == {("ann", "default"), ("ben", "default")}


def test_queues_of_the_teacher_stay(school: School, tmp_path: Path) -> None:
    school.labctl.ok("queue", "apply", "--example", "classroom")
    before = school.world.controller.setup
    school.labctl.ok("class", "add", "ann")
    assert school.world.controller.setup == before
    school.labctl.ok("class", "add", "zoe")
    assert school.queues > {("zoe", "default")}


def test_a_token_is_shown_once(school: School) -> None:
    shown = school.labctl.ok("class", "add", "ann")
    token = shown.split()[-1]
    assert school.registry.bearer(token) is not None
    assert token not in school.labctl.ok("class", "list")
    assert token not in str(school.labctl.json("class", "list"))


def test_tokens_go_into_a_file(school: School, tmp_path: Path) -> None:
    out = tmp_path / "tokens.csv"
    handed = school.labctl.json("class", "add", "--count", "3", "--role", "assistant", "--output", str(out))
    assert all("token" not in one for one in handed["people"])
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["name"] for row in rows] == ["assistant01", "assistant02", "assistant03"]
    assert all(school.registry.bearer(row["token"]) for row in rows)
    assert school.labctl("class", "add", "zoe", "--output", str(out)).exit_code == 11
    assert "zoe" not in school.registry.people()


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], 2, "give names, or a --file, or a --count"),
        (["ann", "--count", "2"], 2, "give names, or a --file, or a --count"),
        (["Ann"], 2, "'Ann' is no name here"),
        (["zoe", "eva"], 11, "in the class already: eva"),
        (["--count", "0"], 2, "must be between"),
        (["--file", "bad.csv"], 2, "line 3: eva is in the class already"),
        (["--file", "missing.csv"], 3, "missing.csv"),
    ],
)
def test_nobody_is_added_where_anything_is_wrong(
    school: School, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], code: int, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("name\nzoe\neva\n")
    school.labctl.ok("class", "add", "eva")
    result = school.labctl("class", "add", *arguments)
    assert (result.exit_code, why in result.output) == (code, True), result.output
    assert list(school.registry.people()) == ["eva"]
    assert school.queues == {("eva", "default")}


def test_what_fails_half_way_is_taken_back(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.people.registry.write_private", full)
    assert school.labctl("class", "add", "ann").exit_code != 0
    assert school.queues == set()
    assert school.registry.people() == {}


def test_a_new_token_ends_the_old_one(school: School) -> None:
    old = school.labctl.json("class", "add", "ann")["people"][0]["token"]
    new = school.labctl.json("class", "reset", "ann")["people"][0]["token"]
    assert school.registry.bearer(old) is None
    assert school.registry.bearer(new) is not None
    assert school.labctl("class", "reset", "ann", "zoe").exit_code == 3
    assert school.registry.bearer(new) is not None


def test_removing_stops_jobs_and_keeps_work(school: School) -> None:
    token = school.labctl.json("class", "add", "ann", "ben")["people"][0]["token"]
    school.submit("ann", "a")
    school.submit("ben", "b")
    school.labctl.store.put("people/ann/model", b"x")
    rows = {one["name"]: one["unfinished_jobs"] for one in school.labctl.json("class", "list")["people"]}
    assert rows == {"ann": 1, "ben": 1}
    done = school.labctl.json("class", "remove", "ann")
    assert (len(done["stopped"]), done["objects"], done["deleted"]) == (1, 1, False)
    assert school.labctl.store.exists("people/ann/model")
    assert school.registry.bearer(token) is None
    assert list(school.registry.people()) == ["ben"]


def test_deleting_work_asks_first(school: School) -> None:
    school.labctl.ok("class", "add", "ann")
    school.labctl.store.put("people/ann/model", b"x")
    school.labctl.store.put("people/anna/model", b"x")
    refused = school.labctl("class", "remove", "ann", "--delete-work")
    assert (refused.exit_code, "1 stored object of ann" in refused.output) == (11, True)
    assert "ann" in school.registry.people()
    school.labctl.ok("class", "remove", "ann", "--delete-work", "--yes")
    assert not school.labctl.store.exists("people/ann/model")
    assert school.labctl.store.exists("people/anna/model")
    assert school.queues == set()


def test_a_lab_without_class_refuses(labctl: Labctl) -> None:
    result = labctl("class", "add", "ann")
    assert (result.exit_code, "labctl up --class" in result.output) == (11, True)


def test_an_empty_class(school: School) -> None:
    assert "nobody is in the class yet" in school.labctl.ok("class", "list")
    assert school.labctl.json("class", "list") == {"people": []}
