"""Records what the training function of one rank does: what it asks for, loads, saves and reports."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ray.train import Checkpoint
from ray.train.v2._internal.execution import context as train_context
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils
from raylab_steps import Steps as TakenSteps
from raylab_steps import watch_steps

from raylab_compat.around import around
from raylab_faults.armed import Armed
from raylab_ledger.chain import Chain
from raylab_ledger.early import watch_fits
from raylab_ledger.reads import Reads, uri_of
from raylab_ledger.recorder import manifest, plain
from raylab_ledger.tensors import sizes_in_files


def quietly(method: Callable[..., Any]) -> Callable[..., None]:
    """A recording that fails is printed, never raised: the user's training comes first."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:
            print(f"raylab: {method.__name__} could not be recorded: {error!r}", flush=True)

    return call


def watch_start(runner: Any, record: Callable[..., None], taken: TakenSteps | None = None) -> None:
    """Record when the training function of this process begins: it is unpickled, with all its imports.

    Steps that were `taken` are written as it ends, also with an error: the process may have little time left.
    """

    def run(method: Callable[..., None], target: Callable[[], Any]) -> None:
        @functools.wraps(target)
        def call() -> Any:
            try:
                return target()
            finally:
                if taken is not None:
                    quietly(taken.flush)()

        record("function_started")
        method(call)

    around(runner, "run", run)


def watch_worker(record: Callable[..., None], flush: Callable[[], None], chain: Chain) -> None:
    """Record what the training function of this process saves, reports, asks for and loads, and how it ends.

    The methods wrapped here lie below the public functions, so it makes no difference how a script
    imported those. A worker process serves one attempt, so nothing needs to be undone.
    """
    armed = Armed(record, flush)
    watch_fits(record)
    watch_steps(record)
    chain.watch()
    watch_reports(record, flush, chain, armed)
    Reads(record).watch()
    watch_preemption(record)


def watch_preemption(record: Callable[..., None]) -> None:
    """Record once that the script asked whether a node is to be taken away, and was told so."""
    once = functools.cache(lambda: record("preemption_notice"))

    def ask(method: Callable[..., Any], utils: Any) -> Any:
        info = method(utils)
        if info is not None:
            once()
        return info

    around(DistributedTrainFnUtils, "get_preemption_info", ask)


def watch_reports(record: Callable[..., None], flush: Callable[[], None], chain: Chain, armed: Armed) -> None:
    """Record each report, the state that is handed over with it, and each checkpoint, whatever its upload
    mode."""
    saved = threading.local()
    numbers: dict[int, tuple[Checkpoint, int]] = {}
    """Id of a checkpoint that is handed over -> itself, and the number of its report."""

    def upload(
        method: Callable[..., Any],
        context: Any,
        checkpoint_dir_name: str,
        metrics: Any,
        checkpoint: Any = None,
        delete_local_checkpoint_after_upload: bool = False,
        checkpoint_upload_fn: Any = None,
        *args: Any,
    ) -> Any:
        kept: dict[str, Any] = {"files": None, "sizes": None}

        def look() -> None:
            kept.update(files=manifest(checkpoint.path), sizes=sizes_in_files(checkpoint.path))

        def send(checkpoint: Any, name: str) -> Any:
            """Upload as the script has it, in a thread of Ray Train's. It may write the files only now."""
            stored = checkpoint_upload_fn(checkpoint, name)
            look()
            kept["files"] = kept["files"] or None  # none is left: what was uploaded is not known
            return stored

        local = checkpoint is not None and checkpoint.filesystem.type_name == "local"
        later = local and checkpoint_upload_fn is not None
        if local and not later:
            look()
        report = method(
            context, checkpoint_dir_name, metrics, checkpoint, delete_local_checkpoint_after_upload,
            send if later else checkpoint_upload_fn, *args,
        )  # fmt: skip
        if report.checkpoint is not None:
            saved.uri = uri_of(report.checkpoint)
            number = numbers.pop(id(checkpoint), (None, None))[1]
            both = {"metrics": plain(metrics), "report": number}
            record("checkpoint_saved", uri=saved.uri, files=kept["files"], sizes=kept["sizes"], **both)
            flush()
        return report

    def report(
        method: Callable[..., Any],
        utils: Any,
        metrics: Any,
        checkpoint: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        saved.uri = None
        armed.before_report(metrics)
        number = chain.hand_over(plain(metrics), checkpoint=checkpoint is not None)
        mode = kwargs.get("checkpoint_upload_mode", args[1] if len(args) > 1 else None)
        if checkpoint is not None and getattr(mode, "name", "") == "NO_UPLOAD":
            saved.uri = uri_of(checkpoint)
            flush()  # `upload` does so for the others: a rank may be killed as soon as its report is taken up
        elif checkpoint is not None:
            numbers[id(checkpoint)] = checkpoint, number
        method(utils, metrics, checkpoint, *args, **kwargs)
        record(
            "report", metrics=plain(metrics), checkpoint=saved.uri, handed=checkpoint is not None,
            report=number, optimizer_steps=chain.steps, empty_steps=chain.empty, rounds=chain.rounds,
        )  # fmt: skip
        armed.after_report(metrics)

    around(train_context.TrainContext, "_upload_checkpoint", upload)
    around(DistributedTrainFnUtils, "report", report)
