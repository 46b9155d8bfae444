"""What a rank reads of checkpoints, on whichever way, and how its reports and checkpoints are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs
import pytest
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.v2._internal.execution import context as train_context
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils
from ray.train.v2.api.preemption import PreemptionInfo

from raylab_ledger import rank, reads


class Recorded:
    """What is recorded, and the methods of Ray that are watched."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.hooks: list[Callable[..., None]] = []

    def __call__(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def all(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Ray's methods are put back afterwards; what Python calls for each file is left without folders to
    look for."""
    for owner, names in (
        (Checkpoint, ("to_directory", "as_directory")),
        (DistributedTrainFnUtils, ("get_checkpoint", "get_all_reported_checkpoints", "report")),
        (train_context.TrainContext, ("_upload_checkpoint",)),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))
    recorder = Recorded()
    monkeypatch.setattr("sys.addaudithook", recorder.hooks.append)
    return recorder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    folder = tmp_path / "run" / "checkpoint_1"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    return Checkpoint.from_directory(folder)


def given(recorded: Recorded, checkpoint: Checkpoint | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `ray.train.get_checkpoint` gives in a rank that is watched."""
    monkeypatch.setattr(DistributedTrainFnUtils, "get_checkpoint", lambda self: checkpoint)
    reads.Reads(recorded).watch()
    return DistributedTrainFnUtils().get_checkpoint()


def test_a_folder_that_is_used_as_it_is_counts_as_read(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with given(recorded, checkpoint, monkeypatch).as_directory() as folder:
        assert folder == checkpoint.path
    (load,) = recorded.all("checkpoint_loaded")
    assert (load["uri"], list(load["files"])) == (checkpoint.path, ["state.json"])


def test_a_copy_of_it_does_too(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given(recorded, checkpoint, monkeypatch).to_directory(tmp_path / "copy")
    assert [load["uri"] for load in recorded.all("checkpoint_loaded")] == [checkpoint.path]


def test_a_file_that_is_opened_by_its_path_counts_once(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(recorded, checkpoint, monkeypatch)
    (see,) = recorded.hooks
    see("open", (3, "r", 0))
    see("open", ("/elsewhere/state.json", "r", 0))
    see("import", (checkpoint.path,))
    assert recorded.all("checkpoint_loaded") == []
    for _ in range(2):
        see("open", (Path(checkpoint.path) / "state.json", "r", 0))
    assert len(recorded.all("checkpoint_loaded")) == 1


def test_one_that_is_listed_counts_once_it_is_opened(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = [SimpleNamespace(checkpoint=checkpoint)]
    monkeypatch.setattr(DistributedTrainFnUtils, "get_all_reported_checkpoints", lambda self: reported)
    given(recorded, None, monkeypatch)
    assert DistributedTrainFnUtils().get_all_reported_checkpoints() == reported
    recorded.hooks[0]("open", (Path(checkpoint.path) / "state.json", "r", 0))
    assert [load["uri"] for load in recorded.all("checkpoint_loaded")] == [checkpoint.path]


def test_what_cannot_be_opened_is_recorded_as_that(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = Checkpoint.from_directory(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        given(recorded, gone, monkeypatch).to_directory(tmp_path / "copy")
    (load,) = recorded.all("checkpoint_loaded")
    assert load["error"].startswith("FileNotFoundError")
    assert "files" not in load


def test_an_object_store_is_named_as_such() -> None:
    assert reads.uri_of(None) is None
    store = SimpleNamespace(filesystem=SimpleNamespace(type_name="s3"), path="ray/run/checkpoint_1")
    assert reads.uri_of(store) == "s3://ray/run/checkpoint_1"


class Chain:
    """The chain of states of a rank that has reported so often."""

    steps, empty, rounds, reports = 10, 0, None, 0

    def hand_over(self, metrics: Any, *, checkpoint: bool) -> int:
        self.reports += 1
        return self.reports


def reporting(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, *, uploads: bool
) -> DistributedTrainFnUtils:
    """Ray's functions in a rank that is watched; with `uploads` a report stores its checkpoint before it
    returns."""
    monkeypatch.setattr(train_context.TrainContext, "_upload_checkpoint", stored)

    def report(self: Any, metrics: Any, checkpoint: Any = None, *args: Any, **kwargs: Any) -> None:
        if uploads:
            train_context.TrainContext._upload_checkpoint(None, "checkpoint_1", metrics, checkpoint)
        recorded("taken_up")

    monkeypatch.setattr(DistributedTrainFnUtils, "report", report)
    armed: Any = SimpleNamespace(before_report=lambda metrics: None, after_report=lambda metrics: None)
    chain: Any = Chain()
    rank.watch_reports(recorded, lambda: recorded("flushed"), chain, armed)
    return DistributedTrainFnUtils()


def stored(
    self: Any,
    name: str,
    metrics: Any,
    checkpoint: Any = None,
    delete: bool = False,
    send: Any = None,
    *args: Any,
) -> Any:
    if checkpoint is not None and send is not None:
        send(checkpoint, name)
    kept = checkpoint and Checkpoint(
        f"ray/run/{name}", pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs.LocalFileSystem())
    )
    return SimpleNamespace(checkpoint=kept)


def test_a_checkpoint_is_told_with_the_number_of_its_report(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = reporting(recorded, monkeypatch, uploads=True)
    train.report({"epoch": 0})
    train.report({"epoch": 1}, checkpoint)
    (saved,) = recorded.all("checkpoint_saved")
    first, second = recorded.all("report")
    assert (saved["report"], list(saved["files"]), saved["sizes"]) == (2, ["state.json"], [])
    assert (first["report"], first["handed"], first["checkpoint"]) == (1, False, None)
    assert (second["report"], second["handed"], second["checkpoint"]) == (2, True, saved["uri"])
    assert second["optimizer_steps"] == 10


def test_one_that_is_still_on_its_way_has_been_handed_over(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporting(recorded, monkeypatch, uploads=False).report({"epoch": 1}, checkpoint=checkpoint)
    (report,) = recorded.all("report")
    assert (report["handed"], report["checkpoint"]) == (True, None)


def test_one_that_the_script_has_stored_itself_is_told_by_its_report(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = CheckpointUploadMode.NO_UPLOAD
    reporting(recorded, monkeypatch, uploads=False).report({}, checkpoint, checkpoint_upload_mode=mode)
    assert recorded.all("report")[0]["checkpoint"] == checkpoint.path


def test_what_was_handed_over_is_stored_before_a_report_without_an_upload_is_taken_up(
    recorded: Recorded, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = CheckpointUploadMode.NO_UPLOAD
    reporting(recorded, monkeypatch, uploads=False).report({}, checkpoint, checkpoint_upload_mode=mode)
    assert [name for name, _ in recorded.events] == ["flushed", "taken_up", "report"]


@pytest.mark.parametrize("writes", [True, False])
def test_files_that_a_script_writes_in_its_own_upload_are_in_the_ledger(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    def upload(checkpoint: Any, name: str) -> Any:
        if writes:
            (Path(checkpoint.path) / "weights.pt").write_bytes(b"weights")
        return checkpoint

    reporting(recorded, monkeypatch, uploads=False)
    empty = Checkpoint.from_directory(tmp_path)
    train_context.TrainContext._upload_checkpoint(None, "checkpoint_1", {}, empty, False, upload)
    (saved,) = recorded.all("checkpoint_saved")
    if writes:
        assert saved["files"]["weights.pt"]["size"] == 7
    else:
        assert saved["files"] is None, "an upload that leaves no file proves nothing"


def test_the_first_answer_that_a_node_is_to_be_taken_away_is_recorded(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = PreemptionInfo(deadline_ms=5, preempted_node_to_ranks={"9e": [1, 0]})
    answers = [None, info, info]
    monkeypatch.setattr(DistributedTrainFnUtils, "get_preemption_info", lambda self: answers.pop(0))
    rank.watch_preemption(recorded)
    assert [DistributedTrainFnUtils().get_preemption_info() for _ in range(3)] == [None, info, info]
    assert recorded.all("preemption_notice") == [{}]
