"""The faults of checkpoints over a fake lab: what is damaged, and that it is put back."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from lab.errors import LabDownError, RefusedError, ServiceError, WaitTimeoutError
from lab.faults import RankProcess, Scene, find_fault
from lab.faults.kinds.checkpoint import KEPT_PREFIX, CheckpointFault
from lab.runtime.base import Execution
from lab.services import STORE, worker
from lab.topology import LEDGER_PREFIX, LabSpec
from tests.fakes import FakeRuntime
from tests.fakes.host import FakeClock
from tests.fakes.store import FakeObjectStore

JOB, W0 = "j1", worker(0)
FAULTS = ["checkpoint-corrupt", "checkpoint-delete", "checkpoint-truncate"]
WEIGHTS = bytes(range(256)) * 4


class TrainedLab(FakeRuntime):
    """A lab whose training has two checkpoints; commands of the probe succeed unless told otherwise."""

    def __init__(self) -> None:
        super().__init__("raylab")
        self.up(LabSpec(workers=2))
        self.store = FakeObjectStore(clock=self.clock)
        self.signals: list[tuple[str, ...]] = []
        self.refuse = ""
        self.broken: dict[str, BaseException] = {}
        for number in (1, 2):
            self.store.put(f"run/checkpoint_{number}/model.pt", WEIGHTS + bytes([number]))
            self.store.put(f"run/checkpoint_{number}/.metadata.json", b"{}")
            self.commit(number)

    def commit(self, number: int) -> None:
        uri = f"s3://ray/run/checkpoint_{number}"
        line = {
            "schema": "ledger/1", "event": "checkpoint_committed", "at": float(number), "job": JOB,
            "run": "run", "attempt": 1, "uri": uri, "metrics": {"epoch": number},
        }  # fmt: skip
        self.store.put(f"{LEDGER_PREFIX}/{JOB}/c-{number}.jsonl", json.dumps(line).encode())

    def refused(self, number: int) -> None:
        """Training has passed a damaged checkpoint over."""
        line = {
            "schema": "ledger/1", "event": "checkpoint_refused", "at": 9.0, "job": JOB, "run": "run",
            "attempt": 2, "uri": f"s3://ray/run/checkpoint_{number}",
        }  # fmt: skip
        self.store.put(f"{LEDGER_PREFIX}/{JOB}/refused.jsonl", json.dumps(line).encode())

    def execute(self, service: str, argv: Sequence[str], **_: object) -> Execution:
        self.signals.append((service, *argv[2:]))
        for word, error in self.broken.items():
            if word in argv:
                raise error
        if self.refuse and self.refuse in argv:
            return Execution(4, json.dumps({"problem": "no such rank"}))
        return Execution(0, json.dumps({"done": True, "first": 9.0, "last": 9.1}))

    def scene(self) -> Scene:
        ranks = (RankProcess(1, worker(1), 12), RankProcess(0, W0, 11))
        known = ("s3://ray/run/checkpoint_1",)
        return Scene(self, STORE, JOB, store=self.store, ranks=ranks, checkpoints=known)

    def files(self) -> dict[str, bytes]:
        return {key: data for key, (data, _) in self.store.buckets["ray"].items() if key.startswith("run/")}


def fault(name: str, clock: FakeClock | None = None) -> CheckpointFault:
    made = find_fault(name)
    assert isinstance(made, CheckpointFault)
    made.clock = clock or FakeClock()
    return made


@pytest.mark.parametrize("name", FAULTS)
def test_the_newest_checkpoint_is_damaged_and_put_back(name: str) -> None:
    trained = TrainedLab()
    before, scene = trained.files(), trained.scene()

    fault(name).inject(scene)

    after = trained.files()
    changed = {key for key in before if after.get(key) != before[key]}
    assert "run/checkpoint_2/model.pt" in changed
    assert all(key.startswith("run/checkpoint_2/") for key in changed)
    assert scene.memo["damaged"] == ["s3://ray/run/checkpoint_2"]
    fault(name).revert(
        Scene(trained, STORE, JOB, store=trained.store, memo=json.loads(json.dumps(scene.memo)))
    )
    assert trained.files() == before
    assert not trained.store.list(KEPT_PREFIX)
    fault(name).revert(scene)
    assert trained.files() == before


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_that_training_has_saved_anew_under_its_name_is_left_alone(name: str) -> None:
    trained, scene = TrainedLab(), None
    before = trained.files()
    scene = trained.scene()
    fault(name).inject(scene)
    trained.store.put("run/checkpoint_2/model.pt", b"saved again")

    fault(name).revert(scene)

    assert trained.files() == {**before, "run/checkpoint_2/model.pt": b"saved again"}
    assert not trained.store.list(KEPT_PREFIX)


def test_a_checkpoint_that_training_has_refused_is_not_damaged_again() -> None:
    trained = TrainedLab()
    trained.refused(2)
    scene = trained.scene()
    fault(FAULTS[0]).inject(scene)
    assert scene.memo["damaged"] == ["s3://ray/run/checkpoint_1"]


def test_each_damage_is_what_it_says() -> None:
    damaged = {}
    for name in FAULTS:
        trained = TrainedLab()
        fault(name).inject(trained.scene())
        damaged[name] = trained.files().get("run/checkpoint_2/model.pt")
    corrupt = damaged["checkpoint-corrupt"]
    assert corrupt is not None
    assert len(corrupt) == len(WEIGHTS) + 1
    assert sum(a != b for a, b in zip(corrupt, WEIGHTS, strict=False)) == 64
    assert damaged["checkpoint-truncate"] == WEIGHTS[: (len(WEIGHTS) + 1) // 2]
    assert damaged["checkpoint-delete"] is None


def test_the_rank_that_saves_is_frozen_before_and_ended_after() -> None:
    trained, clock = TrainedLab(), FakeClock()
    fault("checkpoint-delete", clock).inject(trained.scene())
    assert trained.signals == [
        (W0, "raylab_faults.rank", "hang", "11"), (W0, "raylab_faults.rank", "kill", "11")
    ]  # fmt: skip
    assert clock.slept == [1.0]


def test_the_memo_is_kept_before_anything_is_damaged() -> None:
    trained = TrainedLab()
    before = trained.files()
    seen: list[bool] = []
    scene = trained.scene()
    kept = Scene(**{**vars(scene), "remember": lambda: seen.append(trained.files() == before)})
    fault("checkpoint-delete").inject(kept)
    assert seen == [True, True]


def test_a_rank_that_cannot_be_frozen_leaves_everything_as_it_was() -> None:
    trained = TrainedLab()
    trained.refuse = "hang"
    before = trained.files()
    with pytest.raises(ServiceError, match="no such rank"):
        fault("checkpoint-corrupt").inject(trained.scene())
    assert trained.files() == before


THAW = (W0, "raylab_faults.rank", "thaw", "11")


def damaged_with_a_rank_to_thaw(trained: TrainedLab) -> Scene:
    """A checkpoint is deleted, and by the memo rank 0 is still frozen."""
    scene = trained.scene()
    fault("checkpoint-delete").inject(scene)
    scene.memo["rank"] = [W0, 11]
    return scene


def test_the_rank_is_remembered_before_it_is_frozen() -> None:
    trained = TrainedLab()
    kept: list[tuple[dict[str, object], int]] = []
    scene = trained.scene()
    watched = Scene(
        **{**vars(scene), "remember": lambda: kept.append((dict(scene.memo), len(trained.signals)))}
    )
    fault("checkpoint-delete").inject(watched)
    assert kept[0] == ({"rank": [W0, 11]}, 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WaitTimeoutError("it has not ended after 60 s")])
@pytest.mark.parametrize("when", ["hang", "kill"])
def test_an_interrupt_or_a_timeout_of_a_signal_leaves_no_rank_frozen(when: str, error: BaseException) -> None:
    trained = TrainedLab()
    trained.broken[when] = error
    before, scene = trained.files(), trained.scene()

    with pytest.raises(type(error)):
        fault("checkpoint-delete").inject(scene)
    assert trained.signals[-1] == THAW
    trained.signals.clear()
    fault("checkpoint-delete").revert(Scene(trained, STORE, JOB, store=trained.store, memo=scene.memo))

    assert trained.signals == [THAW]
    assert trained.files() == before


def test_what_a_labctl_left_that_died_while_the_rank_was_frozen_is_thawed() -> None:
    trained = TrainedLab()
    fault("checkpoint-delete").revert(
        Scene(trained, STORE, JOB, store=trained.store, memo={"rank": [W0, 11]})
    )
    assert trained.signals == [THAW]


def test_a_rank_that_was_ended_is_not_thawed() -> None:
    trained = TrainedLab()
    scene = trained.scene()
    fault("checkpoint-corrupt").inject(scene)
    trained.signals.clear()
    fault("checkpoint-corrupt").revert(scene)
    assert trained.signals == []


def test_the_files_are_put_back_although_the_rank_cannot_be_thawed() -> None:
    trained = TrainedLab()
    before, scene = trained.files(), damaged_with_a_rank_to_thaw(trained)
    trained.broken["thaw"] = WaitTimeoutError("it has not ended after 60 s")
    with pytest.raises(WaitTimeoutError):
        fault("checkpoint-delete").revert(scene)
    assert trained.files() == before


def test_a_node_that_is_down_has_nothing_to_thaw() -> None:
    trained = TrainedLab()
    before, scene = trained.files(), damaged_with_a_rank_to_thaw(trained)
    trained.broken["thaw"] = LabDownError("ray-worker-0 is not running")
    fault("checkpoint-delete").revert(scene)
    assert trained.files() == before


def test_an_interrupt_is_not_hidden_by_a_rank_that_cannot_be_thawed() -> None:
    trained = TrainedLab()
    trained.broken = {"hang": KeyboardInterrupt(), "thaw": WaitTimeoutError("it has not ended after 60 s")}
    with pytest.raises(KeyboardInterrupt):
        fault("checkpoint-delete").inject(trained.scene())


def test_a_rank_is_thawed_when_the_damage_cannot_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = TrainedLab()
    monkeypatch.setattr("lab.faults.kinds.checkpoint.MAX_BYTES", 10)
    with pytest.raises(RefusedError, match="would not be copied"):
        fault("checkpoint-delete").inject(trained.scene())
    assert trained.signals[-1] == (W0, "raylab_faults.rank", "thaw", "11")


def test_a_job_that_trains_nowhere_is_refused() -> None:
    trained = TrainedLab()
    with pytest.raises(RefusedError, match="no training process"):
        fault("checkpoint-delete").inject(Scene(trained, STORE, JOB, store=trained.store))
