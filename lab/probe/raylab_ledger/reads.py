"""Records what a rank reads of checkpoints: what it asks for, and what it opens, on whichever of the ways
there are.

A checkpoint is copied to a folder (`to_directory`, `as_directory`), or lies in one that the nodes share,
where a script may open its files by itself. What it reads through `Checkpoint.filesystem`, or through a
client of its own, is not seen: the state with which it trains on tells whether it did (chain.py).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ray.train import Checkpoint
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils

from raylab_compat.around import around
from raylab_ledger.recorder import manifest
from raylab_ledger.tensors import in_files

Record = Callable[..., None]


def uri_of(checkpoint: Checkpoint | None) -> str | None:
    """`scheme://bucket/path` of a checkpoint; a local path stays as it is."""
    if checkpoint is None:
        return None
    kind = checkpoint.filesystem.type_name
    kind = "s3" if "s3" in kind else kind
    return str(checkpoint.path) if kind == "local" else f"{kind}://{checkpoint.path}"


class Reads:
    """Follows the reads of this process."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._folders: dict[str, str] = {}
        """Folder of each checkpoint that Ray gave and nobody has opened yet -> its URI."""
        self._busy = False

    def watch(self) -> None:
        """Follow from now on."""
        around(DistributedTrainFnUtils, "get_checkpoint", self._asked)
        around(DistributedTrainFnUtils, "get_all_reported_checkpoints", self._listed)
        around(Checkpoint, "to_directory", self._copied)
        around(Checkpoint, "as_directory", self._entered)
        sys.addaudithook(self._see)

    def _asked(self, ask: Callable[..., Any], utils: Any) -> Any:
        checkpoint = ask(utils)
        self._record("get_checkpoint", uri=uri_of(checkpoint))
        self._wait_for(checkpoint)
        return checkpoint

    def _listed(self, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        reported = ask(*args, **kwargs)
        for one in reported:
            self._wait_for(one.checkpoint)
        return reported

    def _wait_for(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None and checkpoint.filesystem.type_name == "local":
            self._folders[os.path.join(checkpoint.path, "")] = str(checkpoint.path)

    def _copied(self, copy: Callable[..., Any], checkpoint: Checkpoint, *args: Any, **kwargs: Any) -> str:
        try:
            folder = str(copy(checkpoint, *args, **kwargs))
        except Exception as error:
            self._record("checkpoint_loaded", uri=uri_of(checkpoint), error=repr(error)[:300])
            raise
        self._opened(folder, uri_of(checkpoint))
        return folder

    @contextlib.contextmanager
    def _entered(self, enter: Callable[..., Any], checkpoint: Checkpoint) -> Iterator[str]:
        with enter(checkpoint) as folder:
            if checkpoint.filesystem.type_name == "local":  # else it was copied
                self._opened(folder, uri_of(checkpoint))
            yield folder

    def _opened(self, folder: str, uri: str | None) -> None:
        self._folders.pop(os.path.join(folder, ""), None)
        at, busy, self._busy = time.time(), self._busy, True
        try:
            self._record(
                "checkpoint_loaded", at=at, uri=uri, files=manifest(folder), tensors=in_files(folder)
            )
        finally:
            self._busy = busy

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before every file is opened, and for much else: it has to be quick."""
        if event != "open" or not self._folders or self._busy:
            return
        path = arguments[0]
        if isinstance(path, (str, os.PathLike)):
            name = os.path.abspath(path)
            for folder, uri in list(self._folders.items()):
                if name.startswith(folder):
                    self._opened(folder, uri)
