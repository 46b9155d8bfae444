"""Training resumes from an intact checkpoint: RAY_TRAIN_CALLBACKS=...,raylab_recovery.checkpoint_guard.Intact

Ray Train (2.60) gives a new attempt the checkpoint that was committed last, whatever has become of its files
in the store meanwhile. Here its controller checks first: each file must be there as it was at the commit, in
size and ETag (time of change, where the storage is a folder). Where only the ETag differs, the SHA-256 that
the ranks took before the upload decides (`checkpoint_saved` in the ledger). A checkpoint that is damaged is
refused for good, with a message, and the newest intact one takes its place; the ledger says so with
`checkpoint_refused`: `uri`, `reason`, `instead` (URI, or none). The newest one is looked at while the
processes of the attempt start, so that a checkpoint that is intact costs the attempt no time.

What lay in the store at each commit is kept in a small object beside the run's own snapshot, for a later job
that goes on with the run. Cost: a listing and a HEAD per file at each commit and at each attempt. Where the
store cannot be read, and where several checkpoints share one path, Ray's choice stands. The classes used here
are internal to Ray.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any

from ray.train.v2._internal.exceptions import CheckpointManagerInitializationError
from ray.train.v2._internal.execution.callback import ControllerCallback, WorkerGroupCallback
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager

from raylab_ledger.rank import quietly
from raylab_ledger.reads import uri_of
from raylab_ledger.recorder import LEDGER_VARIABLE, open_recorder
from raylab_ledger.train import submission_id
from raylab_switches import active

KEPT_IN = "raylab_checkpoint_files.json"
"""Object in the run's folder: name of a checkpoint -> `job`, and `files`: path -> [size, tag]."""

LOOK_SECONDS = 120.0
"""Longest wait for the look at a checkpoint; the client of a store gives up long before."""

FRESH_SECONDS = 10.0
"""Age at which a look has to be repeated: the attempt has waited for room."""

RANKS_APART_NS = 60 * 10**9
"""Longest time between the first and the last rank's record of the same checkpoint."""

Files = Mapping[str, Sequence[Any]]
"""Path relative to the checkpoint -> [size in bytes, tag]: a tag that stays means content that stays."""

Sums = Callable[[str, str], Mapping[str, str]]
"""(job, URI of a checkpoint) -> path -> SHA-256 as saved; empty when it is not known."""


class Intact(ControllerCallback, WorkerGroupCallback):
    """Names run and attempt for what is recorded; Ray's checkpoint manager does the checking."""

    def __init__(self, job: str | None = None) -> None:
        """Made in the driver, and again in the controller, before that makes its checkpoint manager."""
        self.job = submission_id() if job is None else job
        self.run, self.attempt = "", 0

    def __reduce__(self) -> tuple[Any, ...]:
        return in_the_controller, (self.job,)

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        self.run = str(train_run_context.run_config.name)

    @quietly
    def before_worker_group_start(self, worker_group_context: Any) -> None:
        self.attempt += 1

    def refused(self, uri: str, reason: str, instead: str | None) -> None:
        """Report a refusal in the job's log and in the ledger."""
        name = PurePosixPath(uri).name
        then = (
            f"resuming from {PurePosixPath(instead).name}"
            if instead
            else "no other is left: training starts over"
        )
        print(f"raylab: {name} is damaged ({reason}): {then}", flush=True)
        recorder = open_recorder(self.job, "intact", {"pid": os.getpid()})
        if recorder is not None:
            fields = {"uri": uri, "reason": reason, "instead": instead}
            recorder.record("checkpoint_refused", run=self.run, attempt=self.attempt, **fields)


def in_the_controller(job: str) -> Intact:
    """The callback as it arrives in the controller's process; Ray's checkpoint manager is changed there."""
    callback = Intact(job)
    if active("checkpoint_guard"):
        guard(CheckpointManager, job, callback.refused)
    return callback


def guard(
    manager_class: Any,
    job: str,
    refused: Callable[[str, str, str | None], None],
    sums: Sums | None = None,
) -> None:
    """Let managers of this class remember what they commit, and check it before an attempt gets it."""
    register = manager_class.register_checkpoint
    schedule = manager_class.before_worker_group_start
    begin = manager_class.before_init_train_context
    exist = manager_class._assert_checkpoints_exist
    sums = sums or saved_sums

    @functools.wraps(register)
    def register_checkpoint(self: Any, training_report: Any) -> None:
        register(self, training_report)
        _remember(self, training_report.checkpoint, job)

    @functools.wraps(schedule)
    def before_worker_group_start(self: Any, worker_group_context: Any) -> None:
        schedule(self, worker_group_context)
        _look_ahead(self, sums)

    @functools.wraps(begin)
    def before_init_train_context(self: Any, workers: Any) -> Any:
        _choose(self, refused, sums)
        return begin(self, workers)

    @functools.wraps(exist)
    def _assert_checkpoints_exist(self: Any) -> None:
        """Ray ends the run when one of its checkpoints is gone; here only when all are."""
        try:
            exist(self)
        except CheckpointManagerInitializationError:
            if not any(_listing(result.checkpoint) for result in self._checkpoint_results):
                raise

    manager_class.register_checkpoint = register_checkpoint
    manager_class.before_worker_group_start = before_worker_group_start
    manager_class.before_init_train_context = before_init_train_context
    manager_class._assert_checkpoints_exist = _assert_checkpoints_exist


def _left_to_ray(method: Callable[..., None]) -> Callable[..., None]:
    """Decorator: a check that fails is printed, and never ends a training."""

    @functools.wraps(method)
    def call(*args: Any) -> None:
        try:
            method(*args)
        except Exception as error:
            why = f"raylab: cannot check whether the checkpoints are intact ({error})"
            print(f"{why}: Ray's own choice stands", flush=True)

    return call


@_left_to_ray
def _remember(manager: Any, checkpoint: Any, job: str) -> None:
    known = _known(manager)
    names = {_name(result.checkpoint) for result in manager._checkpoint_results}
    for name in known.keys() - names:
        del known[name]
    known[_name(checkpoint)] = {"job": job, "files": _tagged(checkpoint)}
    _keep(manager, known)


def _known(manager: Any) -> dict[str, Any]:
    """Entries of this run's checkpoints in KEPT_IN, read once."""
    if not hasattr(manager, "raylab_known"):
        manager.raylab_known = _kept(manager)
    known: dict[str, Any] = manager.raylab_known
    return known


def _kept(manager: Any) -> dict[str, Any]:
    from pyarrow.fs import FileType

    storage = manager._storage_context
    path = f"{storage.experiment_fs_path}/{KEPT_IN}"
    if storage.storage_filesystem.get_file_info(path).type is not FileType.File:
        return {}
    with storage.storage_filesystem.open_input_stream(path) as stream:
        entry = json.loads(stream.read())
    return entry if isinstance(entry, dict) else {}


def _keep(manager: Any, known: Mapping[str, Any]) -> None:
    storage = manager._storage_context
    with storage.storage_filesystem.open_output_stream(f"{storage.experiment_fs_path}/{KEPT_IN}") as stream:
        stream.write(json.dumps(known, separators=(",", ":")).encode())


@_left_to_ray
def _look_ahead(manager: Any, sums: Sums) -> None:
    """Begin to look at the newest checkpoint: `_choose` wants to know whether it is intact."""
    newest = manager._latest_checkpoint_result
    if newest is not None and not _shares_its_path(manager, newest):
        known = _known(manager)
        executor = ThreadPoolExecutor(1, "raylab-checkpoint")
        entry = known.get(_name(newest.checkpoint))
        look = executor.submit(problem, newest.checkpoint, entry, sums)
        manager.raylab_ahead = newest, look, time.monotonic() + FRESH_SECONDS
        executor.shutdown(wait=False)


@_left_to_ray
def _choose(manager: Any, refused: Callable[[str, str, str | None], None], sums: Sums) -> None:
    """Remove damaged checkpoints from the manager, from the newest one to the first that is intact."""
    newest = manager._latest_checkpoint_result
    if newest is None or _shares_its_path(manager, newest):
        return
    known, index = _known(manager), manager._checkpoint_to_report_index
    older = [result for result in manager._checkpoint_results if result is not newest]
    older.sort(key=lambda result: index.get(result.checkpoint, -1), reverse=True)
    looked_at, look, fresh_until = manager.__dict__.pop("raylab_ahead", (None, None, 0.0))
    damaged = []
    chosen = None
    for result in (newest, *older):
        if result is looked_at and time.monotonic() < fresh_until:
            reason = look.result(LOOK_SECONDS)
        else:
            reason = problem(result.checkpoint, known.get(_name(result.checkpoint)), sums)
        if not reason:
            chosen = result
            break
        damaged.append((result, reason))
    if not damaged:
        return
    manager._latest_checkpoint_result = chosen
    for result, reason in damaged:
        if result in manager._checkpoint_results:
            manager._checkpoint_results.remove(result)
        index.pop(result.checkpoint, None)
        manager._pending_training_results.pop(result.checkpoint, None)
        refused(str(uri_of(result.checkpoint)), reason, uri_of(chosen.checkpoint) if chosen else None)
    manager._write_state_to_storage()


def _shares_its_path(manager: Any, newest: Any) -> bool:
    """Tell whether an older checkpoint lay where the newest does: what is there may be half of each.

    A script that saves them all under one name has no other to fall back to, so Ray's choice stands.
    """
    path = newest.checkpoint.path
    return any(r.checkpoint.path == path for r in manager._checkpoint_results if r is not newest)


def problem(checkpoint: Any, entry: Mapping[str, Any] | None, sums: Sums) -> str:
    """Damage of a checkpoint in the store; empty when it is intact, or nothing is known of it.

    Raises OSError when it cannot be read.
    """
    listing = _listing(checkpoint)
    if not listing:
        return "its files are gone"
    files: Files = entry.get("files", {}) if entry else {}
    for path, (size, _) in files.items():
        if path not in listing:
            return f"{path} is gone"
        if listing[path] != size:
            return f"{path} has {listing[path]} bytes instead of {size}"
    tags = _tagged(checkpoint) if files else {}
    changed = [path for path, (_, tag) in files.items() if tags[path][1] != tag]
    if not changed or entry is None:
        return ""
    saved = sums(str(entry.get("job", "")), str(uri_of(checkpoint)))
    for path in changed:
        if path in saved and _sha256(checkpoint, path) != saved[path]:
            return f"{path} has other content than was saved"
    return ""


def _name(checkpoint: Any) -> str:
    return PurePosixPath(str(checkpoint.path)).name


def _listing(checkpoint: Any) -> dict[str, int]:
    """Path relative to the checkpoint -> size, of every file of it that is there."""
    return {path: info.size for path, info in _infos(checkpoint)}


def _tagged(checkpoint: Any) -> dict[str, list[Any]]:
    files = {}
    for path, info in _infos(checkpoint):
        tag = info.mtime_ns
        if checkpoint.filesystem.type_name == "s3":  # its times are whole seconds
            with checkpoint.filesystem.open_input_file(info.path) as stream:
                tag = stream.metadata()["ETag"].decode()
        files[path] = [info.size, tag]
    return files


def _infos(checkpoint: Any) -> Iterator[tuple[str, Any]]:
    from pyarrow.fs import FileSelector, FileType

    root = PurePosixPath(str(checkpoint.path))
    selector = FileSelector(str(checkpoint.path), recursive=True, allow_not_found=True)
    for info in checkpoint.filesystem.get_file_info(selector):
        if info.type is FileType.File:
            yield str(PurePosixPath(info.path).relative_to(root)), info


def _sha256(checkpoint: Any, path: str) -> str:
    digest = hashlib.sha256()
    with checkpoint.filesystem.open_input_stream(f"{checkpoint.path}/{path}") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def saved_sums(job: str, uri: str) -> dict[str, str]:
    """Path -> SHA-256 of a checkpoint's files before their upload, as the ranks' ledger has it.

    Where ranks saved different content under one path, that path is left out. Raises OSError.
    """
    from pyarrow import fs

    root = os.environ.get(LEDGER_VARIABLE)
    if not root or not job:
        return {}
    filesystem, path = fs.FileSystem.from_uri(root)
    infos = filesystem.get_file_info(fs.FileSelector(f"{path}/{job}", allow_not_found=True))
    ranks = [info for info in infos if info.base_name.startswith("rank") and info.extension == "jsonl"]
    sums_of: dict[str, set[str]] = {}
    oldest = 0
    for info in sorted(ranks, key=lambda info: info.mtime_ns, reverse=True):
        if info.mtime_ns < oldest:
            break
        with filesystem.open_input_stream(info.path) as stream:
            lines = stream.read().splitlines()
        for line in lines:
            event = json.loads(line)
            if event.get("event") == "checkpoint_saved" and event.get("uri") == uri:
                oldest = info.mtime_ns - RANKS_APART_NS  # the other ranks saved at about that time
                for name, entry in (event.get("files") or {}).items():
                    sums_of.setdefault(name, set()).add(entry["sha256"])
    return {name: next(iter(sums)) for name, sums in sums_of.items() if len(sums) == 1}
