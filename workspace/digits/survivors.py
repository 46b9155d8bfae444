"""Train the digit classifier so that the loss of a worker stops nobody: torchft under Ray Train.

Every worker is a replica group of its own. Before each step they agree on who takes part, so the others go on
when one is lost; Ray Train replaces it, and the new one gets weights and optimizer from a neighbour while
that one trains on. No step is repeated. A checkpoint is still saved after each epoch, by one worker and in
the background, for the day on which all are lost at once.

What it does not give: while a worker is away its images are not trained on, and the gradient is the mean of
fewer. A run that lost a worker therefore ends with other weights than one that did not; train.py repeats
the lost work and ends with the same. Steps are counted over all epochs; `survivors` in docs/ has the rest.

    labctl submit digits --fault-tolerance torchft -p epochs=60
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from datetime import timedelta
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointUploadMode, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2.torch.torchft_config import TorchftConfig
from torch import nn
from torch.utils.data import TensorDataset
from train import DigitsModel, check_finite, datasets, weights_sha256

STATE_FILE = "state.pt"

LONGEST_STEP = timedelta(seconds=1)
"""Silence of a neighbour in the middle of a step after which that step is given up and taken without it."""


def train_func(config: dict[str, Any]) -> None:
    """Train on one worker: from the start, from the newest checkpoint, or from where its neighbours are."""
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(config["seed"])
    rank = ray.train.get_context().get_world_rank()
    train_set, val_set = datasets()
    model = DigitsModel(config["lr"], config["dropout"], config["seed"])
    adam = torch.optim.Adam(model.parameters(), lr=config["lr"])

    def state() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": adam.state_dict()}

    def load(given: dict[str, Any]) -> None:
        model.load_state_dict(given["model"])
        adam.load_state_dict(given["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=LONGEST_STEP),
        min_replica_size=1,  # the last one goes on alone
        state_dict=state,
        load_state_dict=load,
        replica_id=f"rank{rank}",
        rank=0,  # in its replica group, which has
        world_size=1,
        timeout=timedelta(seconds=20),
    )
    checkpoint = ray.train.get_checkpoint()  # counts when nobody is left; a neighbour's state is newer
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, STATE_FILE))
        load(saved)
        manager.load_state_dict(saved["manager"])
    net, optimizer = DistributedDataParallel(manager, model), Optimizer(manager, adam)

    order = Order(train_set, config, rank)
    losses: list[float] = []
    while (step := manager.current_step()) < config["epochs"] * order.steps_per_epoch:
        x, y = order.batch(step)
        torch.manual_seed(config["seed"] + 1_000_003 * step + rank)
        optimizer.zero_grad()  # asks who takes part in this step
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()  # averages the gradients of all who do
        optimizer.step()  # unless one of them was lost on the way: then it is taken again without it
        if manager.current_step() == step:
            continue
        losses.append(loss.item())
        epoch, rest = divmod(manager.current_step(), order.steps_per_epoch)
        if rest == 0 and manager.participating_rank() == 0:
            report(epoch, model, val_set, losses, {**state(), "manager": manager.state_dict()}, config)
        if rest == 0:
            losses.clear()
    manager.shutdown()


class Order:
    """The images of one worker, step by step: the same in every process that stands in for it."""

    def __init__(self, train_set: TensorDataset, config: dict[str, Any], rank: int) -> None:
        self.images, self.labels = train_set.tensors
        self.size, self.workers, self.rank = config["batch_size"], config["workers"], rank
        self.seed = config["seed"]
        self.steps_per_epoch = len(self.labels) // (self.size * self.workers)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return this worker's images and labels of a step."""
        epoch, place = divmod(step, self.steps_per_epoch)
        shuffle = torch.Generator().manual_seed(self.seed + epoch)
        indices = torch.randperm(len(self.labels), generator=shuffle)
        begin = (place * self.workers + self.rank) * self.size
        chosen = indices[begin : begin + self.size]
        return self.images[chosen], self.labels[chosen]


def report(
    epoch: int,
    model: nn.Module,
    val_set: TensorDataset,
    losses: list[float],
    state: dict[str, Any],
    config: dict[str, Any],
) -> None:
    """Report the metrics of an epoch, and save its state while the training goes on."""
    images, labels = val_set.tensors
    model.eval()
    with torch.no_grad():
        logits = model(images)
    model.train()
    metrics = {
        "epoch": epoch,
        "loss": sum(losses) / len(losses),
        "val_loss": nn.functional.cross_entropy(logits, labels).item(),
        "val_accuracy": (logits.argmax(1) == labels).float().mean().item(),
        "weights_sha256": weights_sha256(model),
    }
    check_finite(metrics)
    folder = tempfile.mkdtemp()
    torch.save(state, os.path.join(folder, STATE_FILE))
    ray.train.report(
        metrics,
        checkpoint=Checkpoint.from_directory(folder),
        checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
        delete_local_checkpoint_after_upload=True,
    )
    print(
        f"epoch {epoch}/{config['epochs']}  loss {metrics['loss']:.4f}"
        f"  val_accuracy {metrics['val_accuracy']:.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a digit classifier that stops for nobody.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2, help="Ray Train workers (ranks)")
    parser.add_argument("--cpus", type=float, default=1, help="logical CPUs per worker")
    parser.add_argument(
        "--gpus", type=float, default=None, help="GPUs per worker (default: 1 if there are enough)"
    )
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--storage", default="s3://ray", help="where checkpoints go")
    parser.add_argument("--max-failures", type=int, default=-1)
    args = parser.parse_args()
    if importlib.util.find_spec("torchft") is None:
        raise SystemExit("this lab has no torchft: it has packages for Linux on x86_64 only")

    ray.init()
    gpus = args.gpus
    if gpus is None:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= args.workers else 0
    result = TorchTrainer(
        train_func,
        train_loop_config={
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "workers": args.workers,
            "lr": args.lr,
            "dropout": args.dropout,
            "seed": args.seed,
        },
        torch_config=TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo"),
        scaling_config=ScalingConfig(
            num_workers=args.workers,
            use_gpu=bool(gpus),
            resources_per_worker={"CPU": args.cpus, **({"GPU": gpus} if gpus else {})},
        ),
        run_config=RunConfig(
            name=os.environ.get("RAYLAB_RUN_NAME"),
            storage_path=args.storage,
            failure_config=FailureConfig(max_failures=args.max_failures),
        ),
    ).fit()
    metrics = result.metrics or {}
    print(f"done: epoch {metrics.get('epoch')}, val_accuracy {metrics.get('val_accuracy', 0):.4f}")


if __name__ == "__main__":
    main()
