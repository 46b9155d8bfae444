"""labctl class: people come and go with queue and token."""

from __future__ import annotations

import csv
import signal
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lab.api.hub import homes
from lab.cluster.queues import Queues
from lab.errors import LessonError, RefusedError, SetupError, StoreError
from lab.ext.course.lessons.results import dump, make_report
from lab.flows.people import PATIENCE_SECONDS, STOP_SECONDS, Classroom
from lab.host import files
from lab.people.registry import FOLDER, Newcomer, Registry
from lab.topology import Credentials, LabSpec
from tests.ext.course.lessons.test_results import result
from tests.fakes.host import FakeClock
from tests.unit.cli.fakes import PLAN, Labctl
from tests.unit.cli.queues import QueueLab


class School:
    """labctl on a lab that is up for a class."""

    def __init__(self, labctl: Labctl, folder: Path) -> None:
        labctl.runtime.down()
        labctl.runtime.up(LabSpec(gpu=PLAN, classroom=True))
        self.labctl, self.world = labctl, QueueLab(labctl, folder)
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

    @property
    def classroom(self) -> Classroom:
        return Classroom(self.labctl.lab, clock=self.labctl.runtime.clock)


class Keys:
    """The administration of a MinIO in memory; `journal` has what was changed, and what tests write."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        """Policy -> access key."""
        self.journal: list[str] = []
        self.full = False

    def put_policy(self, name: str, policy: Mapping[str, object]) -> None:
        self.journal.append(f"policy {name}")

    def put_user(self, key: Credentials, policy: str) -> None:
        if self.full:
            raise StoreError("the disk is full", "free some space")
        self.users[policy] = key.access_key

    def remove_person(self, access_key: str, policy: str) -> None:
        self.journal.append(f"take key {policy}")
        self.users.pop(policy, None)


@pytest.fixture
def school(labctl: Labctl, tmp_path: Path) -> School:
    return School(labctl, tmp_path / "queue")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Where the lab's store is MinIO."""
    keys = Keys()
    monkeypatch.setattr(Classroom, "_administration", lambda _: keys)
    return keys


def test_a_lab_that_is_down_is_started_for_a_class(labctl: Labctl) -> None:
    assert "-> `labctl up --class` starts it" in labctl.down()("class", "add", "ann").stderr


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
        (["Ann"], 2, "'Ann' is not a valid name"),
        (["zoe", "eva"], 11, "already in the class: eva"),
        (["--count", "0"], 2, "must be between"),
        (["--file", "bad.csv"], 2, "line 3: eva is already in the class"),
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


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Fills the disk on which the list of people is."""

    def fail(*_: object, **__: object) -> None:
        raise SetupError("cannot write people.json: No space left on device", "free some space")

    return lambda: monkeypatch.setattr("lab.people.registry.write_private", fail)


def test_nobody_is_added_whose_token_cannot_be_written(school: School, keys: Keys, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = school.labctl("class", "add", "ann", "--output", str(tmp_path / "file" / "tokens.csv"))
    assert result.exit_code == SetupError.exit_code, result.output
    assert (dict(school.registry.people()), school.queues, keys.users) == ({}, set(), {})


def test_a_file_of_tokens_that_do_not_hold_good_is_removed(
    school: School, keys: Keys, tmp_path: Path, full: Callable[[], object]
) -> None:
    full()
    result = school.labctl("class", "add", "ann", "--output", str(tmp_path / "tokens.csv"))
    assert result.exit_code == SetupError.exit_code, result.output
    assert not (tmp_path / "tokens.csv").exists()
    assert (school.queues, keys.users) == (set(), {})


def test_tokens_hold_good_until_all_new_ones_are_written(
    school: School, tmp_path: Path, full: Callable[[], object]
) -> None:
    old = [one["token"] for one in school.labctl.json("class", "add", "ann", "ben")["people"]]
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "tokens.csv", tmp_path / "tokens.csv"):
        result = school.labctl("class", "reset", "ann", "ben", "--output", str(out))
        assert result.exit_code == SetupError.exit_code, result.output
        assert all(map(school.registry.bearer, old))
        assert not out.exists()
        full()


def test_a_file_of_another_labctl_stays(
    school: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, apply = tmp_path / "tokens.csv", Queues.apply

    def meanwhile(queues: Queues, *asked: object, **more: object) -> object:
        out.write_text("another one's")
        return apply(queues, *asked, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Queues, "apply", meanwhile)
    assert school.labctl("class", "add", "ann", "--output", str(out)).exit_code == RefusedError.exit_code
    assert (out.read_text(), dict(school.registry.people())) == ("another one's", {})


def test_an_interrupt_comes_before_tokens_hold_good_or_after(
    school: School, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write = tmp_path / "tokens.csv", files.write_private

    def interrupted(*asked: object, **more: object) -> None:
        signal.raise_signal(signal.SIGINT)
        write(*asked, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("lab.people.registry.write_private", interrupted)
    assert school.labctl("class", "add", "ann", "--output", str(out)).exit_code == 130
    (row,) = csv.DictReader(out.read_text().splitlines())
    assert school.registry.bearer(row["token"])
    assert (list(keys.users), school.queues) == (["raylab-person-ann"], {("ann", "default")})


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


def test_the_documents_of_a_class(school: School, tmp_path: Path) -> None:
    handed = school.labctl.json("class", "add", "ann")
    assert {key: type(value) for key, value in handed.items()} == {"gateway": str, "people": list}
    assert [sorted(one) for one in handed["people"]] == [["name", "role", "token"]]
    filed = school.labctl.json("class", "reset", "ann", "--output", str(tmp_path / "tokens.csv"))
    assert filed["people"] == [{"name": "ann", "role": "student"}]
    ann = school.registry.get("ann")
    listed = {
        "name": "ann", "role": "student", "added_at": ann.added_at, "token_at": ann.token_at,
        "leaving": False, "unfinished_jobs": 0,
    }  # fmt: skip
    assert school.labctl.json("class", "list") == {"people": [listed]}
    gone = {"name": "ann", "stopped": [], "objects": 0, "deleted": False}
    assert school.labctl.json("class", "remove", "ann") == gone


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


def test_deleting_work_deletes_ledgers(school: School) -> None:
    school.labctl.ok("class", "add", "ann")
    own = ("people/ann/model", ".raylab/ledger/ann-1/0.jsonl", ".raylab/ledger/ann-2/0.jsonl")
    others = (".raylab/ledger/anna-1/0.jsonl", ".raylab/ledger/ann/0.jsonl", "people/anna/model")
    for name in (*own, *others):
        school.labctl.store.put(name, b"x")
    refused = school.labctl("class", "remove", "ann", "--delete-work")
    assert "3 stored objects of ann" in refused.output
    done = school.labctl.json("class", "remove", "ann", "--delete-work", "--yes")
    assert (done["objects"], done["deleted"]) == (3, True)
    assert {one.key for one in school.labctl.store.list()} == set(others)


def test_access_ends_before_work_is_deleted(
    school: School, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.labctl.ok("class", "add", "ann")
    school.submit("ann", "a")
    keys.journal.clear()
    cancel, delete = Queues.cancel, type(school.labctl.store).delete

    def noted_cancel(queues: Queues, workload: str, message: str = "") -> object:
        assert school.registry.get("ann").leaving
        keys.journal.append("stop")
        return cancel(queues, workload, message)

    def noted_delete(store: object, names: list[str]) -> None:
        assert not school.labctl.lab.queues.list().workloads
        keys.journal.append(f"delete {names[0]}")
        delete(school.labctl.store, names)

    monkeypatch.setattr(Queues, "cancel", noted_cancel)
    monkeypatch.setattr(type(school.labctl.store), "delete", noted_delete)
    school.labctl.store.put("people/ann/model", b"x")
    school.labctl.store.put(".raylab/ledger/ann-a/0.jsonl", b"x")
    school.labctl.ok("class", "remove", "ann", "--delete-work", "--yes")
    assert keys.journal == [
        "take key raylab-person-ann",
        "stop",
        "delete people/ann/model",
        "delete .raylab/ledger/ann-a/0.jsonl",
    ]


def test_nothing_is_deleted_while_a_job_runs(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    school.labctl.ok("class", "add", "ann")
    school.submit("ann", "a")
    school.labctl.store.put("people/ann/model", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(school.world.ray, "stop", lambda _: None)
        before = school.labctl.runtime.clock()
        result = school.labctl("class", "remove", "ann", "--delete-work", "--yes")
        assert school.labctl.runtime.clock() - before >= STOP_SECONDS
    assert (result.exit_code, f"after {STOP_SECONDS:g} s" in result.output) == (7, True), result.output
    assert "labctl class remove ann" in result.output
    assert school.labctl.store.exists("people/ann/model")
    assert school.registry.get("ann").leaving
    assert school.labctl("class", "add", "ann").exit_code == 11
    school.labctl.ok("class", "remove", "ann", "--delete-work", "--yes")
    assert not school.labctl.store.exists("people/ann/model")
    assert school.registry.people() == {}


def test_a_job_that_comes_late_is_stopped(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    school.labctl.ok("class", "add", "ann")
    school.submit("ann", "a")
    cancel, late = Queues.cancel, ["b"]

    def slow_cancel(queues: Queues, workload: str, message: str = "") -> object:
        answer = cancel(queues, workload, message)
        if late:  # the gateway had let it in
            school.submit("ann", late.pop())
        return answer

    monkeypatch.setattr(Queues, "cancel", slow_cancel)
    assert len(school.labctl.json("class", "remove", "ann")["stopped"]) == 2
    assert not school.labctl.lab.queues.list().workloads


@pytest.mark.parametrize("change", ["add", "remove"])
def test_one_labctl_at_a_time_changes_a_class(
    school: School, keys: Keys, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    classroom, waited = school.classroom, list[float]()
    apply = Queues.apply

    def meanwhile(queues: Queues, *asked: object, **more: object) -> object:
        clock = FakeClock()
        other, before = Classroom(school.labctl.lab, clock=clock), clock()
        with pytest.raises(SetupError, match="busy with adding people"):
            other.add([Newcomer("ann")]) if change == "add" else other.remove("ann", delete=True)
        waited.append(clock() - before)
        return apply(queues, *asked, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Queues, "apply", meanwhile)
    (ann,) = classroom.add([Newcomer("ann")])
    assert waited == [pytest.approx(PATIENCE_SECONDS)]
    assert keys.users == {"raylab-person-ann": ann.person.key.access_key}
    with pytest.raises(RefusedError, match="already in the class: ann"):
        school.classroom.add([Newcomer("ann")])
    assert keys.users == {"raylab-person-ann": ann.person.key.access_key}
    assert school.queues == {("ann", "default")}


def test_who_leaves_gets_no_queue_and_no_key_again(school: School, keys: Keys) -> None:
    school.labctl.ok("class", "add", "ann", "ben")
    school.registry.close("ann")
    school.labctl.lab.queues.delete([("LocalQueue", name, "default") for name in ("ann", "ben")])
    keys.users.clear()
    school.classroom.provide()
    assert list(keys.users) == ["raylab-person-ben"]
    assert school.queues == {("ben", "default")}


def test_keys_stay_where_others_cannot_be_made(school: School, keys: Keys) -> None:
    school.labctl.ok("class", "add", "ann", "ben")
    keys.full, before = True, dict(keys.users)
    with pytest.raises(StoreError, match="full"):
        school.classroom.provide()
    assert (keys.users, len(school.queues)) == (before, 2)


def test_what_removing_waits_for_is_said(school: School) -> None:
    school.labctl.ok("class", "add", "ann")
    school.submit("ann", "a")
    result = school.labctl("class", "remove", "ann")
    assert f"stopping 1 job of ann, {STOP_SECONDS:g} s at most" in result.output


def test_a_lab_without_class_refuses(labctl: Labctl) -> None:
    result = labctl("class", "add", "ann")
    assert (result.exit_code, "labctl up --class" in result.output) == (11, True)


def test_an_empty_class(school: School) -> None:
    assert "nobody is in the class yet" in school.labctl.ok("class", "list")
    assert school.labctl.json("class", "list") == {"people": []}


def test_lessons_are_collected_and_shown(school: School, tmp_path: Path) -> None:
    school.labctl.ok("class", "add", "ann", "ben")
    assert "no report was collected yet" in school.labctl.ok("class", "progress")
    assert school.labctl.json("class", "progress") == {"collected_at": None, "lessons": [], "people": {}}
    folder = tmp_path / "reports"
    folder.mkdir()
    document = make_report({2: result(2, jobs=("ann-lesson-02-plain-1",)).document}, "ann", 1.0)
    (folder / "ann.json").write_text(dump(document))
    assert school.labctl.ok("class", "collect", str(folder)) == "ann.json: ann: claimed: 2\n"
    (folder / "ben.json").write_text(dump(document).replace("lesson-02", "lesson-03"))
    refused = school.labctl("class", "collect", str(folder))
    assert refused.exit_code == LessonError.exit_code
    assert "ben.json, line 1: the report was changed after it was written" in refused.stdout
    rows = list(csv.reader(school.labctl.ok("class", "progress", "--csv").splitlines()))
    assert (rows[0][:4], rows[1][:5], rows[2][:3]) == (
        ["name", "0", "1", "2"], ["ann", "", "", "claimed", ""], ["ben", "", ""],
    )  # fmt: skip
    assert "claimed" in school.labctl.ok("class", "progress")
    shown = school.labctl.json("class", "progress")
    assert shown["people"]["ann"][0]["reason"] == "the lab has no trace of job ann-lesson-02-plain-1"


@pytest.mark.parametrize("keep", [True, False])
def test_her_home_in_jupyterhub_is_kept_or_deleted_with_her_work(school: School, keep: bool) -> None:
    school.labctl.ok("class", "add", "ann")
    home = homes(school.labctl.lab.runtime.folder()) / "ann"
    (home / "work").mkdir(parents=True)
    other = home.with_name("ben")
    other.mkdir()
    if not keep:
        refused = school.labctl("class", "remove", "ann", "--delete-work")
        assert "0 stored objects of ann, and her home in JupyterHub" in refused.output
        assert home.exists()
    school.labctl.ok("class", "remove", "ann", *([] if keep else ["--delete-work", "--yes"]))
    assert [path.name for path in sorted(home.parent.iterdir())] == (["ann", "ben"] if keep else ["ben"])


def test_the_hub_is_for_a_class(school: School) -> None:
    result = school.labctl("up", "--hub")
    assert (result.exit_code, "labctl up --class --hub" in result.stderr) == (2, True), result.stderr
