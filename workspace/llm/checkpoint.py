"""Checkpoints that are written while training goes on, and the way back from them.

A checkpoint is a folder: `model.json` and `weights.pt` (model.py), `adapter.pt` where LoRA trains, and
`state.pt`, which a resumed run needs: the step, the optimizer's state, and what must not change.

Saving copies all of that in memory; training waits for nothing else. A thread of Ray Train's writes the copy
to disk and uploads it. Ray commits the checkpoint when the upload is complete: if the node dies earlier, the
newest one is the checkpoint before.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray.train
import torch
from lora import ADAPTER_FILE
from model import ModelConfig, save_model
from ray.train import Checkpoint, CheckpointUploadMode
from torch import Tensor

STATE_FILE = "state.pt"


class Copy:
    """A copy of tensors in the memory of the host, which keeps its place from one copy to the next."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def of(self, value: Any, path: str = "") -> Any:
        """`value` with every tensor in it copied, through dicts and lists."""
        if isinstance(value, Tensor):
            kept = self._kept.get(path)
            if kept is None or kept.shape != value.shape:
                kept = self._kept[path] = torch.empty(value.shape, dtype=value.dtype)
            return kept.copy_(value.detach())
        if isinstance(value, dict):
            return {key: self.of(entry, f"{path}/{key}") for key, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.of(entry, f"{path}/{number}") for number, entry in enumerate(value))
        return value


class Saver:
    """Reports metrics and checkpoints to Ray Train, one checkpoint at a time."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._copy = Copy()
        self._written = threading.Event()
        self._written.set()
        self.stalled = 0.0
        """Seconds that training has waited for its checkpoints."""

    def save(self, metrics: dict[str, Any], weights: Mapping[str, Tensor], state: Any, writes: bool) -> None:
        """Report, with a checkpoint from the rank that `writes`; all ranks call it.

        A checkpoint that is still being written is waited for: no failure loses more than one interval.
        """
        began = time.perf_counter()
        self.finish()
        if not writes:
            ray.train.report(metrics)
        else:
            content = self._copy.of({"weights": dict(weights), "state": state})
            self._written.clear()
            folder = tempfile.mkdtemp(prefix="llm-")
            ray.train.report(
                metrics,
                checkpoint=Checkpoint.from_directory(folder),
                checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
                checkpoint_upload_fn=lambda checkpoint, name: self._write(content, checkpoint, name),
            )
        self.stalled += time.perf_counter() - began

    def finish(self) -> None:
        """Wait until the checkpoint under way is complete."""
        self._written.wait()

    def _write(self, content: Mapping[str, Any], checkpoint: Checkpoint, name: str) -> Checkpoint:
        """Write the copy into the folder of `checkpoint` and upload that, in a thread of Ray Train's."""
        try:
            write(self._config, content["weights"], content["state"], Path(checkpoint.path))
            storage = ray.train.get_context().get_storage()
            target = storage.build_checkpoint_path_from_name(name)
            upload(Path(checkpoint.path), storage.storage_filesystem, target)
            return Checkpoint(target, storage.storage_filesystem)
        finally:
            self._written.set()


def write(config: ModelConfig, weights: Mapping[str, Tensor], state: Any, folder: Path) -> None:
    """Write the files of a checkpoint."""
    adapter = {name: tensor for name, tensor in weights.items() if name.endswith((".down", ".up"))}
    rest = {name.replace(".base.", "."): t for name, t in weights.items() if name not in adapter}
    save_model(config, rest, folder)
    if adapter:
        torch.save({"matrices": adapter, "lora": state["lora"]}, folder / ADAPTER_FILE)
    torch.save(state, folder / STATE_FILE)


def upload(folder: Path, filesystem: Any, target: str) -> None:
    """Copy the files of a folder, one after another: training needs the processor more than this does.

    Ray's own copy sends them all at once, and asks the store for folders, of which S3 knows nothing.
    """
    if filesystem.type_name == "local":
        filesystem.create_dir(target, recursive=True)
    for file in sorted(folder.iterdir()):
        with filesystem.open_output_stream(f"{target}/{file.name}") as out:
            out.write(file.read_bytes())


def read_state(folder: Path) -> Any:
    """What `write` was given as state, on the CPU."""
    return torch.load(folder / STATE_FILE, map_location="cpu", weights_only=True)


def sha256_of(folder: Path) -> str:
    """SHA-256 of a checkpoint as the ledger has it: of the JSON of its files' sorted [path, SHA-256]."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pairs = [
        [path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in files
    ]
    return hashlib.sha256(json.dumps(sorted(pairs), separators=(",", ":")).encode()).hexdigest()
