"""labctl class add --own-lab: a person gets a lab with workers of the class, and gives them back."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from lab.cluster.allocation import Holding
from lab.cluster.allocation.snapshot import Snapshot
from lab.errors import LabDownError, ServiceError
from lab.flows.own_lab import OwnLabs
from lab.lab import Lab
from lab.runtime import lent
from lab.runtime.lent import Loan
from lab.topology import Check, LabSpec, Outcome
from tests.fakes import FakeRuntime
from tests.unit.cli.fakes import Labctl
from tests.unit.cli.queues import SIMULATED
from tests.unit.cli.test_class import School

ADD = ("class", "add", "ann", "--own-lab")
NAME = "raylab-ann"


class Campus(School):
    """A class whose workers can be lent, and the labs of its people's own beside it."""

    def __init__(self, labctl: Labctl, folder: Path) -> None:
        super().__init__(labctl, folder)
        self.busy: tuple[Holding, ...] = ()
        self.memory: Outcome = "passed"
        patch, runtime = labctl._patch, labctl.runtime
        runtime.down()
        runtime.up(LabSpec(gpu=SIMULATED, classroom=True))
        runtime.host.journal.clear()
        patch.setattr(OwnLabs, "_open", lambda _, name: Lab(FakeRuntime(name, runtime.host)))
        patch.setattr(
            "lab.cluster.allocation.read", lambda _: Snapshot(tuple(runtime.nodes()), (), (), (), ())
        )
        patch.setattr("lab.cluster.allocation.holdings", lambda _: self.busy)
        patch.setattr(
            "lab.flows.doctor.machine.memory", lambda *_: Check("memory", self.memory, "1.0 GB available")
        )

    @property
    def hers(self) -> FakeRuntime:
        return FakeRuntime(NAME, self.labctl.runtime.host)

    @property
    def loans(self) -> tuple[Loan, ...]:
        return lent.read(self.labctl.runtime.folder())

    @property
    def held(self) -> list[tuple[str, str]]:
        """Namespace and lab of what the queues count for labs."""
        return [(row.namespace, row.lab) for row in self.world.queues.list().workloads if row.lab]

    def untouched(self) -> bool:
        return not (self.loans or self.held or self.registry.people() or self.hers.status().up)


@pytest.fixture
def campus(labctl: Labctl, tmp_path: Path) -> Campus:
    return Campus(labctl, tmp_path / "queue")


def test_a_worker_is_lent_and_comes_back(campus: Campus) -> None:
    labctl = campus.labctl
    given = labctl.json(*ADD)
    own = given["own_lab"]
    assert (own["lab"], own["workers"]) == (NAME, ["ray-worker-1"])
    assert [one["name"] for one in given["people"]] == ["ann"]
    spec = campus.hers.spec()
    assert (spec.workers, [one.service for one in spec.gpu.assignments]) == (1, ["ray-worker-0"])
    assert (own["address"], own["token"]) == (
        campus.hers.endpoints().dashboard,
        campus.hers.endpoints().ray_token,
    )
    assert spec.gpu.assignments[0].gpu == labctl.runtime.spec().gpu.assignments[1].gpu
    assert campus.held == [("ann", NAME)]
    (row,) = labctl.json("class", "list")["people"]
    assert (row["own_lab"], row["unfinished_jobs"]) == (f"{NAME}: up, has ray-worker-1", 0)
    assert lent.notes(labctl.runtime.folder()) == (f"lent to ann's own lab {NAME}: ray-worker-1",)

    again = labctl(*ADD)
    assert (again.exit_code, f"ann has a lab of her own: {NAME}" in again.stderr) == (11, True)
    assert f"{NAME} has ended" in labctl.ok("class", "remove", "ann", "--own-lab")
    assert [one for one in labctl.changes() if "ray-worker-1" in one] == [
        "stop ray-worker-1",
        "start ray-worker-1",
    ]
    assert (campus.held, campus.hers.status().up) == ([], False)
    assert (campus.loans, list(campus.registry.people())) == ((Loan("ann", NAME),), ["ann"])
    assert labctl("class", "remove", "ann", "--own-lab").exit_code == 3
    assert labctl.json(*ADD)["people"] == []
    gone = labctl.json("class", "remove", "ann")
    assert (gone["own_lab"], campus.held) == (NAME, [])


def test_the_quota_is_hers_and_others_wait(campus: Campus) -> None:
    campus.labctl.ok("class", "add", "ben")
    campus.labctl.ok(*ADD)
    campus.labctl.ok("submit", "--queue", "ben/default", "--workers", "2", "--gpus-per-worker", "1",
                     "--job-name", "bens", "--detach", "--", "true")  # fmt: skip
    (job,) = (row for row in campus.world.queues.list().workloads if row.namespace == "ben")
    assert "1 more GPU is needed; ann holds" in job.waits
    campus.labctl.ok("class", "remove", "ann")
    assert campus.world.queues.describe(job.workload).status == "Admitted"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--workers", "3"), "ann's queue has no quota for 3 workers for raylab-ann: it asks for 24 CPUs"),
        ((), "1 worker without a job: there is 0 (bens on ray-worker-0, bens on ray-worker-1)"),
        ((), "too little memory for another lab: 1.0 GB available"),
        ((), "there is a lab raylab-ann already, which is not ann's"),
    ],
    ids=["quota", "worker", "memory", "name"],
)
def test_what_is_refused_leaves_nothing(campus: Campus, more: tuple[str, ...], why: str) -> None:
    if "without a job" in why:
        campus.busy = tuple(Holding("bens", f"ray-worker-{n}", {"CPU": 1}, "rank") for n in (0, 1))
    campus.memory = "warning" if "memory" in why else "passed"
    if "already" in why:
        campus.hers.folder().mkdir(parents=True)
    result = campus.labctl(*ADD, *more)
    assert (result.exit_code, why in " ".join(result.stderr.split())) == (11, True), result.stderr
    assert campus.untouched()
    assert not campus.labctl.changes()


def test_a_lab_that_does_not_start_leaves_nothing(campus: Campus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "up", lambda *_, **__: (_ for _ in ()).throw(ServiceError("its head died")))
    result = campus.labctl(*ADD)
    assert (result.exit_code, "its head died" in result.stderr) == (ServiceError.exit_code, True)
    assert campus.untouched()
    assert campus.labctl.changes()[-2:] == ["stop ray-worker-1", "start ray-worker-1"]


def test_one_that_went_down_is_started_with_what_it_has(campus: Campus) -> None:
    campus.labctl.ok(*ADD)
    campus.hers.down()
    assert f"{NAME}: down, has ray-worker-1" in campus.labctl.ok("class", "list")
    assert campus.labctl.json(*ADD)["own_lab"]["workers"] == ["ray-worker-1"]
    assert (campus.hers.status().up, len(campus.held)) == (True, 1)


def test_deleting_work_deletes_hers(campus: Campus) -> None:
    campus.labctl.ok(*ADD)
    refused = campus.labctl("class", "remove", "ann", "--delete-work")
    assert (refused.exit_code, f"every object of {NAME}" in refused.output) == (11, True)
    assert campus.labctl("class", "remove", "ann", "--own-lab", "--delete-work").exit_code == 2
    campus.labctl.ok("class", "remove", "ann", "--delete-work", "--yes")
    assert campus.untouched()


def test_down_ends_it_and_up_frees_its_quota(campus: Campus, monkeypatch: pytest.MonkeyPatch) -> None:
    campus.labctl.ok(*ADD)
    hers = campus.hers
    monkeypatch.setattr(
        "lab.runtime.select.choose", lambda kind, name: type("C", (), {"view": hers, "why": ""})
    )
    campus.labctl.lab.down()
    with pytest.raises(LabDownError):
        hers.spec()
    assert campus.loans == (Loan("ann", NAME),)
    campus.labctl.runtime.up(LabSpec(gpu=SIMULATED, classroom=True))
    assert campus.held == [("ann", NAME)]
    campus.classroom.provide()
    assert campus.held == []


def test_tokens_go_into_the_file(campus: Campus, tmp_path: Path) -> None:
    out = tmp_path / "ann.csv"
    given = campus.labctl.json(*ADD, "--output", str(out))
    assert "token" not in given["own_lab"]
    (row,) = csv.DictReader(out.read_text().splitlines())
    assert (row["name"], row["lab"]) == ("ann", NAME)
    assert row["lab_token"] == campus.hers.endpoints().ray_token


@pytest.mark.parametrize("names", [("ann", "ben"), ("--count", "2"), ()])
def test_one_person_at_a_time(campus: Campus, names: tuple[str, ...]) -> None:
    assert campus.labctl("class", "add", *names, "--own-lab").exit_code == 2
    assert campus.untouched()


def test_tokens_that_cannot_be_written_leave_nothing(campus: Campus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert campus.labctl(*ADD, "--output", str(tmp_path / "file" / "ann.csv")).exit_code != 0
    assert campus.untouched()
