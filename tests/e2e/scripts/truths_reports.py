"""Scripts of truths.py, one for each way of `ray.train.report` and of a `Checkpoint`.

A training function writes its truth by `Notes`; what it `does` other than its name says stands where it does
it. The names of the scripts are the keys of SCRIPTS.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import ray.train
import ray.train.collective
import torch
from pyarrow.fs import FileSystem, copy_files
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    FailureConfig,
    UserCallback,
    ValidationConfig,
    ValidationTaskConfig,
)
from ray.train.torch import prepare_data_loader, prepare_model
from truths_notes import TRUTHS, Commits, Notes, rank, run
from truths_pieces import batches, load, network, one_epoch, resume, save


def parts_of(config: dict[str, Any]) -> tuple[Any, Any, str]:
    """A new network, its optimizer, and what the script does."""
    net = network()
    return net, torch.optim.Adam(net.parameters(), lr=0.01), config["does"]


def first_steps(config: dict[str, Any]) -> None:
    """As the guide to checkpoints begins: two ranks, DDP, a file for each part, epochs from 0."""
    net, optimizer, _ = parts_of(config)
    wrapped = prepare_model(net)
    rows = torch.utils.data.TensorDataset(*(torch.cat(part) for part in zip(*batches(), strict=True)))
    loader = prepare_data_loader(torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True))
    start = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            net.load_state_dict(torch.load(Path(folder) / "model.pt"))
            optimizer.load_state_dict(torch.load(Path(folder) / "optimizer.pt"))
            start = torch.load(Path(folder) / "extra_state.pt")["epoch"] + 1
    notes = Notes(net)
    notes.begin(start)
    for epoch in range(start, config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(wrapped(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank() == 0:
                torch.save(net.state_dict(), Path(folder) / "model.pt")
                torch.save(optimizer.state_dict(), Path(folder) / "optimizer.pt")
                torch.save({"epoch": epoch}, Path(folder) / "extra_state.pt")
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": loss.item()}, checkpoint=checkpoint)
        notes.reported(epoch)


def asynchronous(config: dict[str, Any]) -> None:
    """Uploads while it trains on; an older one may be looked for among all that were reported."""
    net, optimizer, does = parts_of(config)
    first = resume(net=net, optimizer=optimizer)
    if does == "loads an older one" and first > 1:
        with ray.train.get_all_reported_checkpoints()[0].checkpoint.as_directory() as folder:
            load(folder, net=net, optimizer=optimizer)
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        checkpoint = save(tempfile.mkdtemp(), epoch, net=net, optimizer=optimizer)
        mode = CheckpointUploadMode.ASYNC
        ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint, checkpoint_upload_mode=mode)
        notes.reported(epoch)


def by_itself(config: dict[str, Any]) -> None:
    """Writes into the storage by itself, and reads `Checkpoint.filesystem`."""
    net, optimizer, does = parts_of(config)
    storage, first = ray.train.get_context().get_storage(), 1
    if checkpoint := ray.train.get_checkpoint():
        path = checkpoint.path
        if does == "reads an older one":
            before = int(path.rpartition("-")[2]) - 2
            path = storage.build_checkpoint_path_from_name(f"epoch-{before}")
        with checkpoint.filesystem.open_input_file(f"{path}/state.pt") as file:
            state = torch.load(io.BytesIO(file.read()))
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = int(checkpoint.path.rpartition("-")[2]) + 1
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        path = storage.build_checkpoint_path_from_name(f"epoch-{epoch}")
        storage.storage_filesystem.create_dir(path)
        with storage.storage_filesystem.open_output_stream(f"{path}/state.pt") as file:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
        ray.train.report(
            {"epoch": epoch, "loss": loss},
            checkpoint=Checkpoint(path, filesystem=storage.storage_filesystem),
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )
        notes.reported(epoch)


def upload(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """A checkpoint_upload_fn."""
    storage = ray.train.get_context().get_storage()
    path = storage.build_checkpoint_path_from_name(name)
    time.sleep(0.2)
    copy_files(checkpoint.path, path, destination_filesystem=storage.storage_filesystem)
    return Checkpoint(path, filesystem=storage.storage_filesystem)


def own_upload(config: dict[str, Any]) -> None:
    """Uploads by a function of its own, under names of its own, and has the local folder deleted."""
    net, optimizer, _ = parts_of(config)
    first = resume(net=net, optimizer=optimizer)
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        ray.train.report(
            {"epoch": epoch, "loss": loss},
            checkpoint=save(tempfile.mkdtemp(), epoch, net=net, optimizer=optimizer),
            checkpoint_dir_name=f"epoch-{epoch}",
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=upload,
            delete_local_checkpoint_after_upload=True,
        )
        notes.reported(epoch)


def shards(config: dict[str, Any]) -> None:
    """Two ranks with a network each: all report, with a file each."""
    net = network(seed=rank())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    first, mine = 1, rank()
    if checkpoint := ray.train.get_checkpoint():
        shard = 0 if config["does"] == "loads the wrong shard" else mine
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / f"model-rank={shard}.pt")
        first = state["epoch"] + 1
        if config["does"] != "restores on rank 0 alone" or mine == 0:
            net.load_state_dict(state["net"])
            optimizer.load_state_dict(state["optimizer"])
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer, seed=mine)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, Path(folder) / f"model-rank={mine}.pt")
            checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
        notes.reported(epoch)


def metadata(config: dict[str, Any]) -> None:
    """Keeps the epoch in the checkpoint's metadata, and copies it into a folder of its own."""
    net, optimizer, does = parts_of(config)
    first = 1
    if checkpoint := ray.train.get_checkpoint():
        first = checkpoint.get_metadata()["epoch"] + 1
        if does != "begins anew and claims":
            folder = checkpoint.to_directory(tempfile.mkdtemp())
            load(folder, net=net, optimizer=optimizer)
            shutil.rmtree(folder)
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(folder, epoch, net=net, optimizer=optimizer)
            checkpoint.set_metadata({"epoch": epoch})
            checkpoint.update_metadata({"kind": "metadata"})
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
        notes.reported(epoch)


def all_reported(config: dict[str, Any]) -> None:
    """Takes the newest of all that were reported; a liar the best, and counts on."""
    net, optimizer, does = parts_of(config)
    first = 1
    mode = CheckpointConsistencyMode.COMMITTED
    if known := ray.train.get_all_reported_checkpoints(consistency_mode=mode, timeout_s=60):
        by = "score" if does == "loads the best" else "epoch"
        chosen = max(known, key=lambda one: one.metrics[by])
        with chosen.checkpoint.as_directory() as folder:
            load(folder, net=net, optimizer=optimizer)
        first = max(one.metrics["epoch"] for one in known) + 1
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(folder, epoch, net=net, optimizer=optimizer)
            metrics = {"epoch": epoch, "loss": loss, "score": -abs(epoch - 3)}
            ray.train.report(metrics, checkpoint=checkpoint)
        notes.reported(epoch)


def several_reports(config: dict[str, Any]) -> None:
    """Reports after each batch, with a checkpoint after the last one of an epoch."""
    net, optimizer, does = parts_of(config)
    first = resume(**{} if does == "opens and forgets" else {"net": net, "optimizer": optimizer})
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        for number, (x, y) in enumerate(batches()):
            loss = torch.nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics = {"epoch": epoch, "batch": number, "loss": loss.item()}
            if number < 3:
                ray.train.report(metrics)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            ray.train.report(metrics, checkpoint=save(folder, epoch, net=net, optimizer=optimizer))
        notes.reported(epoch)


def only_loss(config: dict[str, Any]) -> None:
    """Reports nothing but its loss."""
    net, optimizer, does = parts_of(config)
    first = 1 if does == "begins anew" else resume(net=net, optimizer=optimizer)
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            ray.train.report({"loss": loss}, checkpoint=save(folder, epoch, net=net, optimizer=optimizer))
        notes.reported(epoch)


def by_steps(config: dict[str, Any]) -> None:
    """Counts steps, and saves every five; a liar counts some that it has not done."""
    net, optimizer, does = parts_of(config)
    first = resume(net=net, optimizer=optimizer)
    if does == "skips steps" and first > 1:
        first += 10
    notes = Notes(net)
    notes.begin(first)
    rows = batches()
    for step in range(first, config["num_steps"] + 1):
        x, y = rows[step % len(rows)]
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            notes.keep(step)
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = save(folder, step, net=net, optimizer=optimizer)
                ray.train.report({"step": step, "loss": loss.item()}, checkpoint=checkpoint)
            notes.reported(step)


def trained(config: dict[str, Any]) -> None:
    """The plain loop of the scripts whose runs are what is special; it reads a folder by its path, if it
    can."""
    net, optimizer, _ = parts_of(config)
    first = 1
    if checkpoint := ray.train.get_checkpoint():
        if checkpoint.filesystem.type_name == "local":
            first = load(checkpoint.path, net=net, optimizer=optimizer) + 1
        else:
            first = resume(net=net, optimizer=optimizer)
    wrapped = prepare_model(net)
    notes = Notes(net)
    notes.begin(first)
    validates = config["library"] == "validation"
    for epoch in range(first, config["epochs"] + 1):
        info = ray.train.get_preemption_info() if config["library"] == "preemption" else None
        loss = one_epoch(wrapped, optimizer, seed=rank())
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(folder, epoch, net=net, optimizer=optimizer) if rank() == 0 else None
            task = ValidationTaskConfig(fn_kwargs={"epoch": epoch}, timeout_s=60) if validates else False
            metrics = {"epoch": epoch, "loss": loss, "warned": info is not None}
            ray.train.report(metrics, checkpoint=checkpoint, validation=task)
        notes.reported(epoch)


def broadcast(config: dict[str, Any]) -> None:
    """Rank 0 alone reads the checkpoint, and gives its state to all; a liar keeps it to itself."""
    net, optimizer, does = parts_of(config)
    first = resume(net=net, optimizer=optimizer) if rank() == 0 else 1
    first = ray.train.collective.broadcast_from_rank_zero(first)
    if does == "restores on rank 0 alone":
        state = None
    else:
        mine = {"net": net.state_dict(), "optimizer": optimizer.state_dict()} if rank() == 0 else None
        state = ray.train.collective.broadcast_from_rank_zero(mine)
    if state is not None:
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        ray.train.collective.barrier()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(folder, epoch, net=net, optimizer=optimizer) if rank() == 0 else None
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
        notes.reported(epoch)


class Writes(UserCallback):
    """Writes down what the controller is told."""

    def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
        with (TRUTHS / "controller.txt").open("a") as file:
            file.write(json.dumps([metrics[0]["epoch"], checkpoint is not None]) + "\n")

    def after_exception(self, run_context: Any, worker_exceptions: Any) -> None:
        with (TRUTHS / "controller.txt").open("a") as file:
            file.write(repr(worker_exceptions) + "\n")


def validate(checkpoint: Checkpoint, epoch: int) -> dict[str, Any]:
    """A function of ValidationConfig, which is a task of its own."""
    net = network()
    with checkpoint.as_directory() as folder:
        load(folder, net=net)
    with torch.no_grad():
        return {"validation_loss": sum(float((net(x) - y).square().mean()) for x, y in batches(9))}


PREEMPTION = FailureConfig(
    max_failures=3, max_preemption_failures=3, controller_failure_limit=3, preemption_grace_s=1.0,
    relax_collectives_on_preemption=True,
)  # fmt: skip
BEST = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min")


SCRIPTS = {
    "first steps": lambda c: run(
        first_steps, c, workers=2, settings={"checkpoint_config": CheckpointConfig(num_to_keep=2)}
    ),
    "asynchronous": lambda c: run(asynchronous, c, settings={"callbacks": [Commits()]}),
    "by itself": lambda c: run(by_itself, c),
    "own upload": lambda c: run(own_upload, c, settings={"callbacks": [Commits()]}),
    "shards": lambda c: run(shards, c, workers=2),
    "metadata": lambda c: run(metadata, c),
    "all reported": lambda c: run(all_reported, c),
    "several reports": lambda c: run(several_reports, c),
    "only loss": lambda c: run(only_loss, c),
    "steps": lambda c: run(by_steps, {**c, "num_steps": 5 * c["epochs"]}),
    "broadcast": lambda c: run(broadcast, c, workers=2),
    "best kept": lambda c: run(trained, c, settings={"checkpoint_config": BEST}),
    "shared folder": lambda c: run(trained, c, settings={"storage_path": str(TRUTHS / "storage")}),
    "own file system": lambda c: run(
        trained,
        c,
        settings={"storage_path": "ray/own", "storage_filesystem": FileSystem.from_uri("s3://ray")[0]},
    ),
    "callback": lambda c: run(trained, c, workers=2, settings={"callbacks": [Writes()]}),
    "validation": lambda c: run(
        trained, c, validation_config=ValidationConfig(validate, ray_remote_kwargs={"num_cpus": 0})
    ),
    "elastic folder": lambda c: run(trained, c, workers=(1, 2)),
    "preemption": lambda c: run(trained, c, workers=2, settings={"failure_config": PREEMPTION}),
}
"""Name -> what runs it."""
