"""Records what the training function of one rank does: what it asks for, loads, saves and reports."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ray.train import Checkpoint
from ray.train.v2._internal.execution import context as train_context
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils

from raylab_faults.armed import Armed
from raylab_ledger.early import watch_fits
from raylab_ledger.recorder import plain, try_manifest
from raylab_ledger.steps import Steps
from raylab_ledger.survivors import Steps as TakenSteps
from raylab_ledger.survivors import watch_steps
from raylab_ledger.weights import Weights, in_files


def quietly(method: Callable[..., Any]) -> Callable[..., None]:
    """A recording that fails is printed, never raised: the user's training comes first."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:
            print(f"raylab: {method.__name__} could not be recorded: {error!r}", flush=True)

    return call


def uri_of(checkpoint: Checkpoint | None) -> str | None:
    """`scheme://bucket/path` of a checkpoint; a local path stays as it is."""
    if checkpoint is None:
        return None
    kind = checkpoint.filesystem.type_name
    kind = "s3" if "s3" in kind else kind
    return str(checkpoint.path) if kind == "local" else f"{kind}://{checkpoint.path}"


def watch_start(
    runner: Any, record: Callable[..., None], steps: Steps, taken: TakenSteps | None = None
) -> None:
    """Record when the training function of this process begins: it is unpickled, with all its imports.

    Steps that were `taken` are written as it ends, also with an error: the process may have little time left.
    """
    run = runner.run

    @functools.wraps(run)
    def watched_run(target: Callable[[], Any]) -> None:
        record("function_started")
        quietly(steps.watch)()
        run(target if taken is None else flushed(target, taken))

    runner.run = watched_run


def flushed(target: Callable[[], Any], taken: TakenSteps) -> Callable[[], Any]:
    """`target`, with its steps written once it is over."""

    @functools.wraps(target)
    def call() -> Any:
        try:
            return target()
        finally:
            quietly(taken.flush)()

    return call


class Hashed:
    """A script's own upload of a checkpoint, and the SHA-256 of the local files that were there after it.

    A script may write them only in its upload, in a thread of Ray Train's.
    """

    def __init__(self, upload: Callable[[Checkpoint, str], Checkpoint]) -> None:
        self._upload = upload
        self.files: dict[str, Any] | None = None

    def send(self, checkpoint: Checkpoint, name: str) -> Checkpoint:
        """Upload the checkpoint; what is no longer there afterwards is not known."""
        stored = self._upload(checkpoint, name)
        self.files = try_manifest(checkpoint.path) or None
        return stored


def watch_worker(record: Callable[..., None], flush: Callable[[], None], steps: Steps) -> None:
    """Record what the training function of this process saves, reports, asks for and loads, and how it ends.

    The methods wrapped here lie below the public functions, so it makes no difference how a script
    imported those. A worker process serves one attempt, so nothing needs to be undone.
    """
    saved = threading.local()
    armed = Armed(record, flush)
    watch_fits(record)
    watch_steps(record)
    weights = Weights(record)
    weights.watch()

    upload = train_context.TrainContext._upload_checkpoint

    @functools.wraps(upload)
    def watched_upload(
        self: Any,
        checkpoint_dir_name: str,
        metrics: Any,
        checkpoint: Any = None,
        delete_local_checkpoint_after_upload: bool = False,
        checkpoint_upload_fn: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        local = checkpoint is not None and checkpoint.filesystem.type_name == "local"
        send, hashed = checkpoint_upload_fn, Hashed(checkpoint_upload_fn)
        if local and send is not None:
            send = hashed.send
        elif local:
            hashed.files = try_manifest(checkpoint.path)
        report = upload(
            self, checkpoint_dir_name, metrics, checkpoint, delete_local_checkpoint_after_upload, send,
            *args, **kwargs,
        )  # fmt: skip
        if report.checkpoint is not None:
            saved.uri = uri_of(report.checkpoint)
            record("checkpoint_saved", uri=saved.uri, files=hashed.files, metrics=plain(metrics))
            flush()
        return report

    train_context.TrainContext._upload_checkpoint = watched_upload

    report = DistributedTrainFnUtils.report

    @functools.wraps(report)
    def watched_report(self: Any, metrics: Any, *args: Any, **kwargs: Any) -> None:
        saved.uri = None
        armed.before_report(metrics)
        weights.stop()
        report(self, metrics, *args, **kwargs)
        record("report", metrics=plain(metrics), checkpoint=saved.uri, optimizer_steps=steps.done)
        armed.after_report(metrics)

    DistributedTrainFnUtils.report = watched_report

    get_checkpoint = DistributedTrainFnUtils.get_checkpoint

    @functools.wraps(get_checkpoint)
    def watched_get_checkpoint(self: Any) -> Any:
        checkpoint = get_checkpoint(self)
        record("get_checkpoint", uri=uri_of(checkpoint))
        return checkpoint

    DistributedTrainFnUtils.get_checkpoint = watched_get_checkpoint

    to_directory = Checkpoint.to_directory

    @functools.wraps(to_directory)
    def watched_to_directory(self: Any, *args: Any, **kwargs: Any) -> str:
        folder = to_directory(self, *args, **kwargs)
        at, uri, files, tensors = time.time(), uri_of(self), try_manifest(folder), in_files(folder)

        def loaded(trees: Sequence[str]) -> None:
            known = None if tensors is None else [*tensors, *trees]
            record("checkpoint_loaded", at=at, uri=uri, files=files, tensors=known)

        loaded(())
        weights.read_later(folder, loaded)
        return str(folder)

    Checkpoint.to_directory = watched_to_directory
