"""That training resumes from an intact checkpoint: Ray's own checkpoint manager, over a folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_ledger.recorder import LEDGER_VARIABLE
from raylab_recovery import checkpoint_guard

JOB = "j1"


class GuardedRun:
    """A run whose storage is a folder, with a manager like the one in Ray Train's controller."""

    def __init__(self, root: Path) -> None:
        from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager

        self.root, self.number = root, 0
        self.refused: list[tuple[str, str, str | None]] = []
        self.sums: dict[str, str] = {}
        self.manager_class = type(
            "Manager", (CheckpointManager,), {"_notify": lambda self: None}
        )  # needs a running event loop
        checkpoint_guard.guard(
            self.manager_class, JOB, lambda *news: self.refused.append(news), lambda *_: self.sums
        )
        self.start()

    def start(self) -> None:
        """The controller of a (later) job that runs under the same name."""
        from ray.train import CheckpointConfig
        from ray.train.v2._internal.execution.storage import StorageContext

        storage = StorageContext(str(self.root), "run")
        self.manager = self.manager_class(CheckpointConfig(num_to_keep=4), storage)

    def save(self, content: str = "weights", name: str = "") -> Path:
        """One more checkpoint, committed, in a folder of its own unless that is named."""
        from ray.train import Checkpoint
        from ray.train.v2._internal.execution.training_report import _TrainingReport

        self.number += 1
        folder = self.root / "run" / (name or f"checkpoint_{self.number}")
        folder.mkdir(parents=True, exist_ok=bool(name))
        (folder / "model.pt").write_text(f"{content} {self.number}")
        (folder / "part").mkdir(exist_ok=True)
        (folder / "part" / "a").write_text("a")
        report: Any = _TrainingReport(Checkpoint(str(folder)), {"epoch": self.number}, False)
        self.manager.register_checkpoint(report)
        return folder

    def schedule(self) -> None:
        """An attempt is about to start."""
        self.manager.before_worker_group_start(object())

    def resume(self) -> str | None:
        """The name of the checkpoint that the next attempt gets."""
        given = self.manager.before_init_train_context([object()])["checkpoint"][0]
        return Path(given.path).name if given else None


@pytest.fixture
def run(tmp_path: Path) -> GuardedRun:
    return GuardedRun(tmp_path)


def rewrite(file: Path, content: str) -> None:
    """As a damage does that keeps the size: another time of change."""
    file.write_text(content)
    os.utime(file, ns=(1, 1))


def test_the_newest_checkpoint_is_given_when_it_is_intact(run: GuardedRun) -> None:
    assert run.resume() is None
    run.save()
    run.save()
    assert run.resume() == "checkpoint_2"
    assert not run.refused


def test_a_truncated_checkpoint_is_refused_for_the_one_before(run: GuardedRun) -> None:
    first, newest = run.save(), run.save()
    (newest / "model.pt").write_text("wei")
    assert run.resume() == first.name
    assert run.refused == [(str(newest), "model.pt has 3 bytes instead of 9", str(first))]


def test_checkpoints_that_share_one_path_are_left_to_ray(run: GuardedRun) -> None:
    for _ in range(3):
        folder = run.save(name="latest")
    (folder / "model.pt").write_text("half of the ne")  # the next one was being written there
    run.schedule()
    assert run.resume() == "latest"
    assert not run.refused


def test_the_newest_one_is_looked_at_while_the_ranks_start(
    run: GuardedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.save()
    run.save()
    run.schedule()
    monkeypatch.setattr(checkpoint_guard, "problem", lambda *_: "looked at a second time")
    assert run.resume() == "checkpoint_2"
    assert run.resume() is None


def test_an_attempt_that_has_waited_for_room_looks_again(
    run: GuardedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.save()
    newest = run.save()
    monkeypatch.setattr(checkpoint_guard, "FRESH_SECONDS", 0.0)
    run.schedule()
    run.manager.raylab_ahead[1].result(10)
    (newest / "model.pt").write_text("wei")
    assert run.resume() == "checkpoint_1"


def test_damage_that_was_found_ahead_is_refused(run: GuardedRun) -> None:
    run.save()
    (run.save() / "model.pt").write_text("wei")
    run.schedule()
    assert run.resume() == "checkpoint_1"
    assert [reason for _, reason, _ in run.refused] == ["model.pt has 3 bytes instead of 9"]
    run.schedule()
    assert run.resume() == "checkpoint_1"


def test_what_was_looked_at_for_an_attempt_that_never_began_does_not_count_for_a_newer_checkpoint(
    run: GuardedRun,
) -> None:
    run.save()
    run.schedule()
    (run.save() / "model.pt").write_text("wei")
    assert run.resume() == "checkpoint_1"


def test_a_store_that_cannot_be_read_ahead_leaves_rays_choice(
    run: GuardedRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run.save()

    def fail(*_: Any) -> str:
        raise OSError("no answer")

    monkeypatch.setattr(checkpoint_guard, "problem", fail)
    run.schedule()
    assert run.resume() == "checkpoint_1"
    assert "no answer" in capsys.readouterr().out


def test_a_checkpoint_with_a_file_gone_is_refused(run: GuardedRun) -> None:
    run.save()
    (run.save() / "part" / "a").unlink()
    assert run.resume() == "checkpoint_1"
    assert run.refused[0][1] == "part/a is gone"


def test_of_several_damaged_ones_each_is_refused_and_told(run: GuardedRun) -> None:
    import shutil

    run.save()
    (run.save() / "model.pt").write_text("x")
    shutil.rmtree(run.save())
    assert run.resume() == "checkpoint_1"
    assert [(Path(uri).name, reason) for uri, reason, _ in run.refused] == [
        ("checkpoint_3", "its files are gone"),
        ("checkpoint_2", "model.pt has 1 bytes instead of 9"),
    ]


def test_what_was_refused_stays_refused_and_training_goes_on_saving(run: GuardedRun) -> None:
    run.save()
    damaged = run.save()
    (damaged / "model.pt").write_text("x")
    run.resume()
    (damaged / "model.pt").write_text("weights 2")  # put back: no longer the newest that training knows
    assert run.resume() == "checkpoint_1"
    run.save()
    assert run.resume() == "checkpoint_3"
    assert len(run.refused) == 1


def test_without_an_intact_checkpoint_training_begins_anew_and_that_is_told(run: GuardedRun) -> None:
    newest = run.save()
    (newest / "model.pt").write_text("")
    assert run.resume() is None
    assert run.refused == [(str(newest), "model.pt has 0 bytes instead of 9", None)]


def test_content_that_changed_is_told_by_the_sum_it_was_saved_with(run: GuardedRun) -> None:
    run.save()
    newest = run.save()
    run.sums = {"model.pt": hashlib.sha256(b"weights 2").hexdigest()}
    rewrite(newest / "model.pt", "wEights 2")
    assert run.resume() == "checkpoint_1"
    assert run.refused[0][1] == "model.pt has other content than was saved"


def test_the_same_content_written_again_is_intact(run: GuardedRun) -> None:
    run.save()
    newest = run.save()
    run.sums = {"model.pt": hashlib.sha256(b"weights 2").hexdigest()}
    rewrite(newest / "model.pt", "weights 2")
    assert run.resume() == "checkpoint_2"


def test_a_change_that_nothing_proves_to_be_damage_is_left_to_ray(run: GuardedRun) -> None:
    rewrite(run.save() / "model.pt", "wEights 1")
    assert run.resume() == "checkpoint_1"


def test_a_storage_that_cannot_be_looked_at_leaves_rays_choice(
    run: GuardedRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.save() / "model.pt").write_text("")

    def away(*_: object) -> str:
        raise OSError("the store does not answer")

    monkeypatch.setattr(checkpoint_guard, "problem", away)
    assert run.resume() == "checkpoint_1"
    assert not run.refused
    assert "the store does not answer" in capsys.readouterr().out


def test_a_later_job_under_the_same_name_looks_too(run: GuardedRun) -> None:
    first, newest = run.save(), run.save()
    run.start()
    (newest / "model.pt").write_text("x")
    assert run.resume() == first.name


def test_a_later_job_goes_on_although_a_checkpoint_is_gone(run: GuardedRun) -> None:
    import shutil

    run.save()
    shutil.rmtree(run.save())
    run.start()
    assert run.resume() == "checkpoint_1"
    run.start()
    assert run.resume() == "checkpoint_1"
    assert len(run.refused) == 1


def test_a_later_job_is_refused_by_ray_when_all_checkpoints_are_gone(run: GuardedRun) -> None:
    import shutil

    from ray.train.v2._internal.exceptions import CheckpointManagerInitializationError

    shutil.rmtree(run.save())
    with pytest.raises(CheckpointManagerInitializationError):
        run.start()


def test_only_checkpoints_that_are_kept_are_remembered(run: GuardedRun) -> None:
    for _ in range(6):
        run.save()
    kept = json.loads((run.root / "run" / checkpoint_guard.KEPT_IN).read_text())
    assert sorted(kept) == [f"checkpoint_{n}" for n in (3, 4, 5, 6)]
    assert kept["checkpoint_6"]["job"] == JOB
    assert {path: size for path, (size, _) in kept["checkpoint_6"]["files"].items()} == {
        "model.pt": 9,
        "part/a": 1,
    }


def test_sums_come_from_what_the_ranks_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(uri: str, **files: str) -> str:
        sums = {path: {"size": 1, "sha256": sha256} for path, sha256 in files.items()}
        return json.dumps({"event": "checkpoint_saved", "uri": uri, "files": sums}) + "\n"

    ledger = tmp_path / JOB
    ledger.mkdir()
    (ledger / "rank0-1.jsonl").write_text(line("/c1", a="1") + line("/c2", a="2", b="3"))
    (ledger / "rank1-1.jsonl").write_text(line("/c2", b="other", c="4"))
    (ledger / "controller-1.jsonl").write_text(line("/c2", d="no rank"))
    monkeypatch.setenv(LEDGER_VARIABLE, tmp_path.as_uri())

    assert checkpoint_guard.saved_sums(JOB, "/c2") == {"a": "2", "c": "4"}
    assert checkpoint_guard.saved_sums("another", "/c2") == {}
    monkeypatch.delenv(LEDGER_VARIABLE)
    assert checkpoint_guard.saved_sums(JOB, "/c2") == {}


def test_a_refusal_is_printed_and_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded: list[tuple[str, Mapping[str, Any]]] = []
    recorder = SimpleNamespace(record=lambda event, **fields: recorded.append((event, fields)))
    monkeypatch.setattr(checkpoint_guard, "open_recorder", lambda *_: recorder)
    subject = checkpoint_guard.Intact(JOB)
    subject.after_controller_start(SimpleNamespace(run_config=SimpleNamespace(name="r")))
    subject.before_worker_group_start(None)
    subject.before_worker_group_start(None)

    subject.refused("s3://ray/r/checkpoint_9", "model.pt is gone", "s3://ray/r/checkpoint_8")
    subject.refused("s3://ray/r/checkpoint_9", "model.pt is gone", None)

    said = capsys.readouterr().out.splitlines()
    assert said[0] == "raylab: checkpoint_9 is damaged (model.pt is gone): resuming from checkpoint_8"
    assert said[1].endswith("no other is left: training starts over")
    assert recorded[0] == (
        "checkpoint_refused",
        {
            "run": "r",
            "attempt": 2,
            "uri": "s3://ray/r/checkpoint_9",
            "reason": "model.pt is gone",
            "instead": "s3://ray/r/checkpoint_8",
        },
    )


def test_rays_manager_is_changed_where_the_callback_arrives_and_only_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager

    guarded: list[Any] = []
    monkeypatch.setattr(checkpoint_guard, "guard", lambda manager, job, _: guarded.append((manager, job)))
    make, arguments = checkpoint_guard.Intact(JOB).__reduce__()
    assert not guarded
    assert make(*arguments).job == JOB
    assert guarded == [(CheckpointManager, JOB)]
