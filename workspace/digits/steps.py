"""Train the digit classifier step by step, and lose little, or nothing, when a worker is lost.

Every way has the same network, data and steps; `--way` says where a worker that starts again gets its state:

- `checkpoint`: from the store, where one is saved every few epochs. All workers stop and start again.
- `memory`: from the memory of a neighbour, which is given the state every few steps (neighbours.py), or from
  the store where that is newer. All workers stop and start again, in the middle of an epoch.
- `torchft`: from a worker that trains. Only the lost one stops: every worker is a replica group of its own,
  and before each step they agree on who takes part.

The state of a step, the order of the data and the numbers that dropout draws do not depend on the attempt. So
`checkpoint` and `memory` end with the same weights, bit for bit, as a run that lost nobody. torchft does not:
while a worker is away its images are not trained on, and the gradient is the mean of fewer.

    labctl submit digits --fault-tolerance torchft -p epochs=60
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import ray
import ray.train
import torch
from common import (
    DigitsModel,
    check_finite,
    datasets,
    loop_config,
    parser,
    run_config,
    scaling_config,
    seed_step,
    weights_sha256,
)
from neighbours import WAIT_SECONDS, HandOver, start_neighbours, unpacked
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.v2.torch.torchft_config import TorchftConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

STATE_FILE = "state.pt"

LONGEST_STEP = timedelta(seconds=1)
"""torchft: silence of a neighbour in a step after which that step is given up and taken without it."""

BEAT_MS, SILENT_MS = 25, 150
"""torchft: time from one sign of life to the next, and silence after which the next step is taken without a
worker."""

State = dict[str, Any]


class Training:
    """A worker of an ordinary training: from the start, or from the newest checkpoint."""

    def __init__(self, model: nn.Module, adam: torch.optim.Optimizer, config: dict[str, Any]) -> None:
        context = ray.train.get_context()
        self.rank, self.world_size = context.get_world_rank(), context.get_world_size()
        self.model, self.adam, self.config = model, adam, config
        self.step = 0
        saved = saved_state()
        if saved is not None:
            self.load(saved)
        self.net: Callable[..., torch.Tensor] = DistributedDataParallel(model)
        self.optimizer: Any = adam

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.adam.state_dict(),
        }

    def load(self, state: State) -> None:
        """Go on from this state."""
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.adam.load_state_dict(state["optimizer"])

    def took_step(self) -> bool:
        """Count the step that was taken, and tell whether it counts."""
        self.step += 1
        return True

    def place(self, epoch: int) -> dict[str, Any]:
        """Return how far the training has come, as a report says it."""
        return {"epoch": epoch}

    def reporter(self) -> bool:
        """Tell whether this worker measures, and saves the state."""
        return self.rank == 0

    def report(self, metrics: dict[str, Any]) -> None:
        """Report how far it has come and save it, in which all workers take part."""
        report(metrics, self.state() if self.reporter() else None)

    def close(self) -> None:
        """End the worker's part."""


class FromMemory(Training):
    """The same, but the newest state is in the memory of a neighbour, too, and that may be newer."""

    def __init__(self, model: nn.Module, adam: torch.optim.Optimizer, config: dict[str, Any]) -> None:
        super().__init__(model, adam, config)
        neighbours = ray.get_actor(config["neighbours"])
        newer = None
        if self.rank == 0:
            run = ray.train.get_context().get_experiment_name()
            newer = ray.get(neighbours.newest.remote(self.step, run), timeout=WAIT_SECONDS)
        shared = [newer]
        torch.distributed.broadcast_object_list(shared, src=0)  # so all go on from the same step
        self.resumed: dict[str, Any] = {}
        if shared[0] is not None:
            data, keeper = shared[0]
            self.load(unpacked(data))
            self.resumed = {"resumed_from": f"memory of {keeper}", "resumed_step": self.step}
            if self.rank == 0:
                print(f"step {self.step}: the state is from the memory of {keeper}", flush=True)
        node = ray.get_runtime_context().get_node_id()
        self.hand_over = HandOver(
            lambda: ray.get(neighbours.keeper.remote(self.rank, node), timeout=WAIT_SECONDS),
            self.world_size,
        )
        self.hand_over.offer(self.step, self.state())

    def took_step(self) -> bool:
        """Count the step, and give the neighbour the state after every few, if that is cheap enough."""
        self.step += 1
        turn, rest = divmod(self.step, self.config["keep_every"])
        if rest == 0 and turn % self.world_size == self.rank and self.hand_over.due():
            self.hand_over.offer(self.step, self.state())
        return True

    def place(self, epoch: int) -> dict[str, Any]:
        """Return the step, since an attempt may begin between two epochs, and what the neighbour was sent."""
        return {"step": self.step, "sent_bytes": self.hand_over.sent_bytes, **self.resumed}


class Survivor(Training):
    """A worker that goes on when another one is lost, and gets its state from a neighbour if it was lost."""

    def __init__(self, model: nn.Module, adam: torch.optim.Optimizer, config: dict[str, Any]) -> None:
        import torchft

        context = ray.train.get_context()
        self.rank, self.world_size = context.get_world_rank(), config["workers"]
        self.model, self.adam, self.config = model, adam, config
        self.manager = torchft.Manager(
            pg=torchft.ProcessGroupGloo(timeout=LONGEST_STEP),
            min_replica_size=1,  # the last one goes on alone
            state_dict=lambda: {"model": model.state_dict(), "optimizer": adam.state_dict()},
            load_state_dict=self._take,
            replica_id=f"rank{self.rank}",
            rank=0,  # in its replica group, which has
            world_size=1,
            timeout=timedelta(seconds=20),
            heartbeat_interval=timedelta(milliseconds=BEAT_MS),
        )
        saved = saved_state()  # counts when nobody is left; a neighbour's state is newer
        if saved is not None:
            self._take(saved)
            self.manager.load_state_dict(saved["manager"])
        self.step = self.manager.current_step()
        self.net = torchft.DistributedDataParallel(self.manager, model)
        self.optimizer = torchft.Optimizer(self.manager, adam)  # asks before each step who takes part in it

    def _take(self, given: State) -> None:
        self.model.load_state_dict(given["model"])
        self.adam.load_state_dict(given["optimizer"])

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {**super().state(), "manager": self.manager.state_dict()}

    def took_step(self) -> bool:
        """Tell whether the step counts; if a worker was lost on the way it is taken again without it."""
        before, self.step = self.step, self.manager.current_step()
        return self.step != before

    def reporter(self) -> bool:
        """Tell whether it is this worker that reports: one does, whichever is there."""
        return bool(self.manager.participating_rank() == 0)

    def report(self, metrics: dict[str, Any]) -> None:
        """Report, and save, if it is this worker's turn."""
        if self.reporter():
            super().report(metrics)

    def close(self) -> None:
        """Leave the others."""
        self.manager.shutdown()


WAYS: dict[str, type[Training]] = {"checkpoint": Training, "memory": FromMemory, "torchft": Survivor}


class Order:
    """The images of one worker, step by step: the same in every process that stands in for it.

    Together the workers take the same images in a step, however many they are.
    """

    def __init__(self, train_set: TensorDataset, config: dict[str, Any], rank: int, world_size: int) -> None:
        self.images, self.labels = train_set.tensors
        self.all_workers = config["batch_size"] * config["workers"]
        self.size = self.all_workers // world_size
        self.begin, self.seed = rank * self.size, config["seed"]
        self.steps_per_epoch = len(self.labels) // self.all_workers

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return this worker's images and labels of a step."""
        epoch, place = divmod(step, self.steps_per_epoch)
        shuffle = torch.Generator().manual_seed(self.seed + epoch)
        indices = torch.randperm(len(self.labels), generator=shuffle)
        begin = place * self.all_workers + self.begin
        chosen = indices[begin : begin + self.size]
        return self.images[chosen], self.labels[chosen]


def train_func(config: dict[str, Any]) -> None:
    """Train on one worker."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(config["seed"])
    train_set, val_set = datasets()
    model = DigitsModel(config["lr"], config["dropout"], config["seed"])
    adam = torch.optim.Adam(model.parameters(), lr=config["lr"])
    training = WAYS[config["way"]](model, adam, config)
    order = Order(train_set, config, training.rank, training.world_size)
    last = config["passes"] * order.steps_per_epoch
    while training.step < last:
        x, y = order.batch(training.step)
        seed_step(config["seed"], training.step, training.rank)
        training.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(training.net(x), y)
        loss.backward()  # averages the gradients of all who take part
        training.optimizer.step()
        if not training.took_step():
            continue
        epoch, rest = divmod(training.step, order.steps_per_epoch)
        if rest == 0 and (epoch % config["save_every"] == 0 or training.step == last):
            metrics = {**training.place(epoch), "loss": loss.item()}
            check_finite(metrics["loss"], f"step {training.step}")
            if training.reporter():
                metrics |= measured(model, val_set)
                print(
                    f"epoch {epoch}/{config['passes']}  loss {metrics['val_loss']:.4f}"
                    f"  val_accuracy {metrics['val_accuracy']:.4f}",
                    flush=True,
                )
            training.report(metrics)
    training.close()


def measured(model: nn.Module, val_set: TensorDataset) -> dict[str, Any]:
    """Return the metrics of the model as it is."""
    images, labels = val_set.tensors
    model.eval()
    with torch.no_grad():
        logits = model(images)
    model.train()
    return {
        "val_loss": nn.functional.cross_entropy(logits, labels).item(),
        "val_accuracy": (logits.argmax(1) == labels).float().mean().item(),
        "weights_sha256": weights_sha256(model),
    }


def saved_state() -> State | None:
    """Return the state in the newest checkpoint; None where there is none."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        state: State = torch.load(os.path.join(folder, STATE_FILE))
    return state


def report(metrics: dict[str, Any], state: State | None) -> None:
    """Report metrics, and save a state, if there is one, while the training goes on."""
    checkpoint = None
    if state is not None:
        folder = tempfile.mkdtemp()
        torch.save(state, os.path.join(folder, STATE_FILE))
        checkpoint = Checkpoint.from_directory(folder)
    ray.train.report(
        metrics,
        checkpoint=checkpoint,
        checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
        delete_local_checkpoint_after_upload=True,
    )


def main() -> None:
    options = parser("Train a digit classifier step by step.")
    options.add_argument("--way", choices=WAYS, default="checkpoint", help="where a lost worker's state is")
    options.add_argument("--save-every", type=int, default=1, help="epochs from one report to the next")
    options.add_argument(
        "--keep-every", type=int, default=10, help="memory: fewest steps from one copy to the next"
    )
    args = options.parse_args()
    if args.way == "torchft" and importlib.util.find_spec("torchft") is None:
        raise SystemExit("this lab has no torchft: it has packages for Linux on x86_64 only")

    ray.init()
    config = {"way": args.way, "passes": args.epochs, "save_every": args.save_every, **loop_config(args)}
    torch_config = TorchConfig(backend="gloo")
    if args.way == "torchft":
        torch_config = TorchftConfig(
            lighthouse_kwargs={"min_replicas": 1, "heartbeat_timeout_ms": SILENT_MS}, backend="gloo"
        )
    if args.way == "memory":
        _held, name = start_neighbours()  # for as long as this process holds it
        steps = args.epochs * Order(datasets()[0], config, 0, args.workers).steps_per_epoch
        config |= {"keep_every": args.keep_every, "neighbours": name, "steps": steps}
    else:
        config["epochs"] = args.epochs
    result = TorchTrainer(
        train_func,
        train_loop_config=config,
        torch_config=torch_config,
        scaling_config=scaling_config(args, spread=args.way == "torchft"),
        run_config=run_config(args),
    ).fit()
    metrics = result.metrics or {}
    print(f"done: epoch {args.epochs}, val_accuracy {metrics.get('val_accuracy', 0):.4f}")


if __name__ == "__main__":
    main()
