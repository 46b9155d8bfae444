"""Scripts of truths.py, one for each way of training with PyTorch. See truths_reports.py."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.torch import prepare_model
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from truths_notes import TRUTHS, Commits, Notes, rank, run
from truths_pieces import batches, network, one_epoch, resume, save


def report(epoch: int, loss: float, **parts: Any) -> None:
    """Report an epoch, with what rank 0 has of these parts."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save(folder, epoch, **parts) if rank() == 0 else None
        ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)


def sharded(config: dict[str, Any]) -> None:
    """FSDP2: every rank saves its shards with torch.distributed.checkpoint."""
    from torch.distributed.fsdp import fully_shard

    net = network()
    fully_shard(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    first = 1
    if checkpoint := ray.train.get_checkpoint():
        model, moments = get_state_dict(net, optimizer)
        state = {"model": model, "optimizer": moments, "epoch": 0}
        with checkpoint.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=moments)
        first = state["epoch"] + 1
        if config["does"] == "initializes again":
            with torch.no_grad():
                for parameter in net.parameters():
                    torch.nn.init.normal_(parameter._local_tensor, std=0.1)  # type: ignore[attr-defined]
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer, seed=rank())
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            model, moments = get_state_dict(net, optimizer)
            dcp.save({"model": model, "optimizer": moments, "epoch": epoch}, checkpoint_id=folder)
            checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
        notes.reported(epoch)


def flat(config: dict[str, Any]) -> None:
    """FSDP1: rank 0 saves the whole state."""
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

    net = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def whole() -> Any:
        kind = FullStateDictConfig(rank0_only=False)
        return FullyShardedDataParallel.state_dict_type(net, StateDictType.FULL_STATE_DICT, kind)

    first = 1
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder, whole():
            state = torch.load(Path(folder) / "state.pt")
            net.load_state_dict(state["net"])
        first = state["epoch"] + 1
    notes = Notes(lambda: list(net.parameters()))
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer, seed=rank())
        notes.keep(epoch)
        with whole():
            state = {"net": net.state_dict(), "epoch": epoch}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank() == 0:
                torch.save(state, Path(folder) / "state.pt")
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
        notes.reported(epoch)


def saved_meanwhile(config: dict[str, Any]) -> None:
    """DDP: torch.distributed.checkpoint writes into the run's folder meanwhile, and Ray Train waits for
    it."""
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    wrapped = prepare_model(net)
    first = 1
    if checkpoint := ray.train.get_checkpoint():
        model, moments = get_state_dict(net, optimizer)
        state = {"model": model, "optimizer": moments, "epoch": 0}
        dcp.load(state, checkpoint_id=checkpoint.path)
        set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=moments)
        first = state["epoch"] + 1
    notes = Notes(net)
    notes.begin(first)
    storage = ray.train.get_context().get_storage()
    group = torch.distributed.new_group(backend="gloo")  # the training uses its own at the same time
    future: Any = None
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(wrapped, optimizer, seed=rank())
        notes.keep(epoch)
        model, moments = get_state_dict(net, optimizer)
        path = storage.build_checkpoint_path_from_name(f"epoch-{epoch}")
        state = {"model": model, "optimizer": moments, "epoch": epoch}
        if future is not None:  # one at a time: each has collectives
            future.result()
        future = dcp.async_save(state, checkpoint_id=path, process_group=group)

        def wait(checkpoint: Checkpoint, name: str, future: Any = future) -> Checkpoint:
            future.result()
            return checkpoint

        ray.train.report(
            {"epoch": epoch, "loss": loss}, checkpoint=Checkpoint.from_directory(path),
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC, checkpoint_upload_fn=wait,
            delete_local_checkpoint_after_upload=False,
        )  # fmt: skip
        notes.reported(epoch)


def mixed(config: dict[str, Any]) -> None:
    """Automatic mixed precision with a gradient scaler, and gradients of two batches for each step."""
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=7)  # type: ignore[attr-defined]
    parts = {"net": net, "optimizer": optimizer, "scaler": scaler}
    if config["does"] == "takes a new scaler":
        del parts["scaler"]
    first = resume(**parts)
    notes = Notes(net, scaler)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        for number, (x, y) in enumerate(batches()):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = torch.nn.functional.mse_loss(net(x), y)
            scaler.scale(loss / 2).backward()
            if number % 2:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        notes.keep(epoch)
        report(epoch, loss.item(), net=net, optimizer=optimizer, scaler=scaler)
        notes.reported(epoch)


def averaged(config: dict[str, Any]) -> None:
    """Keeps a moving average of its weights: by PyTorch's AveragedModel or as a copy of its own, beside the
    network or inside the same module."""
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    own = config.get("own", False)
    mean: Any = copy.deepcopy(net) if own else AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    both = torch.nn.ModuleList([net, mean]) if config.get("inside") else None
    if config["does"] == "begins its mean anew":
        first = resume(net=net, optimizer=optimizer)
        (mean if own else mean.module).load_state_dict(net.state_dict())
    else:
        first = resume(net=net, optimizer=optimizer, mean=mean)
    notes = Notes(both or [net, mean])
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        for x, y in batches():
            loss = torch.nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if own:
                with torch.no_grad():
                    for average, value in zip(mean.parameters(), net.parameters(), strict=True):
                        average.lerp_(value, 0.1)
            else:
                mean.update_parameters(net)
        notes.keep(epoch)
        report(epoch, loss.item(), net=net, optimizer=optimizer, mean=mean)
        notes.reported(epoch)


def scheduled(config: dict[str, Any]) -> None:
    """A learning rate that changes with each step; a liar forgets what Adam remembers."""
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=4 * config["epochs"])
    parts = {"net": net, "optimizer": optimizer, "scheduler": scheduler}
    if config["does"] == "forgets the optimizer's state":
        del parts["optimizer"]
    first = resume(**parts)
    notes = Notes(net, scheduler)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        for x, y in batches():
            loss = torch.nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        notes.keep(epoch)
        report(epoch, loss.item(), net=net, optimizer=optimizer, scheduler=scheduler)
        notes.reported(epoch)


def normalized(config: dict[str, Any]) -> None:
    """BatchNorm and dropout, on two ranks; rates by a function of the epoch."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
    net = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    new = {name: value.clone() for name, value in net[1].named_buffers()}
    first = resume(net=net, optimizer=optimizer)
    if config["does"] == "begins its means anew":
        net[1].load_state_dict(new, strict=False)
    wrapped = prepare_model(net)
    notes = Notes(net if rank() == 0 else list(net.parameters()))  # DDP gives all ranks rank 0's means
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * 0.5 ** (epoch // 10)
        loss = one_epoch(wrapped, optimizer, seed=rank())
        wrapped.eval()
        with torch.no_grad():
            wrapped(batches(9)[0][0])
        wrapped.train()
        notes.keep(epoch)
        report(epoch, loss, net=net, optimizer=optimizer)
        notes.reported(epoch)


def frozen(config: dict[str, Any]) -> None:
    """Trains a head on a frozen part, which is in the checkpoint; a liar makes another one."""
    forgets = config["does"] == "makes another frozen part"
    torch.seed()
    body, head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)
    net = torch.nn.Sequential(body, torch.nn.ReLU(), head)
    body.requires_grad_(False)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
    first = resume(head=head, optimizer=optimizer) if forgets else resume(net=net, optimizer=optimizer)
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        loss = one_epoch(net, optimizer)
        notes.keep(epoch)
        report(epoch, loss, net=net, head=head, optimizer=optimizer)
        notes.reported(epoch)


def adversarial(config: dict[str, Any]) -> None:
    """Two networks with an optimizer each, as a GAN; a liar begins with a new discriminator."""
    torch.manual_seed(0)
    generator, discriminator = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    makes = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999))
    judges = torch.optim.Adam(discriminator.parameters(), lr=0.01, betas=(0.5, 0.999))
    parts = {"generator": generator, "makes": makes, "discriminator": discriminator, "judges": judges}
    if config["does"] == "begins with a new discriminator":
        first = resume(generator=generator, makes=makes)
    else:
        first = resume(**parts)
    notes = Notes(generator, discriminator)
    notes.begin(first)
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    for epoch in range(first, config["epochs"] + 1):
        for x, _ in batches():
            noise = torch.randn(8, 4)
            real, fake = discriminator(x), discriminator(generator(noise).detach())
            judged = bce(real, torch.ones_like(real)) + bce(fake, torch.zeros_like(fake))
            judges.zero_grad()
            judged.backward()
            judges.step()
            fooled = bce(discriminator(generator(noise)), torch.ones(8, 1))
            makes.zero_grad()
            fooled.backward()
            makes.step()
        notes.keep(epoch)
        report(epoch, fooled.item(), **parts)
        notes.reported(epoch)


def stops_early(config: dict[str, Any]) -> None:
    """Ends by a rule of its own, which is in the checkpoint; it says how many epochs there may be, or does
    not."""
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    patience, best = 0, float("inf")
    first = resume(net=net, optimizer=optimizer)
    if checkpoint := ray.train.get_checkpoint():
        patience, best = (checkpoint.get_metadata()[key] for key in ("patience", "best"))
    notes = Notes(net)
    notes.begin(first)
    for epoch in range(first, (config["epochs"] or 40) + 1):
        loss = one_epoch(net, optimizer)
        score = loss if epoch < 15 else loss + 10
        patience, best = (0, score) if score < best else (patience + 1, best)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(folder, epoch, net=net, optimizer=optimizer)
            checkpoint.set_metadata({"patience": patience, "best": best})
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
        notes.reported(epoch)
        if patience >= 10:
            break


SCRIPTS = {
    "sharded": lambda c: run(sharded, c, workers=2),
    "flat": lambda c: run(flat, c, workers=2),
    "saved meanwhile": lambda c: run(
        saved_meanwhile,
        c,
        workers=2,
        settings={"storage_path": str(TRUTHS / "storage"), "callbacks": [Commits()]},
    ),
    "mixed": lambda c: run(mixed, c),
    "averaged": lambda c: run(averaged, c),
    "scheduled": lambda c: run(scheduled, c),
    "normalized": lambda c: run(normalized, c, workers=2),
    "frozen": lambda c: run(frozen, c),
    "adversarial": lambda c: run(adversarial, c),
    "stops early": lambda c: run(stops_early, c if c.get("plans") else {**c, "epochs": None}),
}
"""Name -> what runs it."""
