"""Train the language model so that the loss of a worker stops nobody but itself (torchft).

Every worker is a replica group of its own, with the whole model. Before each step they agree on who takes
part; a worker that is lost is left out of the next one, and one that comes back gets the state from a
neighbour. A checkpoint is for the loss of all.

What differs from train.py is below: the gradients are averaged by torchft, the optimizer asks before each
step, and a step counts only if nobody was lost in it. While a worker is away its rows are not trained on, so
that the weights are not those of an undisturbed run.

    labctl submit llm --fault-tolerance torchft -p workers=2
"""

from __future__ import annotations

import importlib.util
from datetime import timedelta
from typing import Any

import ray.train
import ray.train.torch
import torch
import train
from model import Decoder
from ray.train.v2.torch.torchft_config import TorchftConfig
from torch import Tensor, nn

LONGEST_STEP = timedelta(seconds=10)
"""Silence of a neighbour in a step after which that step is given up and taken without it. One that has died
is noticed at once."""

LONGEST_WAIT = timedelta(seconds=60)
"""Time for the others to come to an agreement, and for a neighbour to hand over its state."""


class Survivor(train.Training):
    """A worker that goes on when another one is lost, and gets its state from a neighbour if it was lost."""

    def __init__(self, config: dict[str, Any], rank: int, device: torch.device) -> None:
        import torchft

        super().__init__(config, rank, config["rows"] // config["batch_size"], device)
        module, adamw = self.module, self.optimizer
        self.manager = torchft.Manager(
            pg=torchft.ProcessGroupGloo(timeout=LONGEST_STEP),
            min_replica_size=1,  # the last one goes on alone
            state_dict=lambda: {"model": module.state_dict(), "optimizer": adamw.state_dict()},
            load_state_dict=self._take,
            replica_id=f"rank{rank}",
            rank=0,  # in its replica group, which has
            world_size=1,
            timeout=LONGEST_WAIT,
        )
        # Of the checkpoint that it was started with; a neighbour's state is newer.
        self.manager.load_state_dict({"step": self.step, "batches_committed": self.step * self.ranks})
        self.model = torchft.DistributedDataParallel(self.manager, module)
        self.adamw, self.optimizer = adamw, torchft.Optimizer(self.manager, adamw)

    def _take(self, given: dict[str, Any]) -> None:
        self.module.load_state_dict(given["model"])
        self.adamw.load_state_dict(given["optimizer"])

    def spread(self, model: Decoder) -> tuple[nn.Module, nn.Module]:
        """The model as it is: torchft has to know the other workers first."""
        model.to(self.device)
        return model, model

    def reports(self) -> bool:
        """Tell whether it is this worker that reports: one does, whichever is there."""
        return bool(self.manager.participating_rank() == 0)

    def train_step(self) -> Tensor:
        """Do one step, which counts unless another worker was lost in it."""
        loss = super().train_step()
        self.step = self.manager.current_step()
        return loss

    def share(self, starts: Tensor) -> Tensor:
        """All windows that are held out: who else is there does not matter."""
        return starts

    def save(self, metrics: dict[str, Any]) -> None:
        """Report with a checkpoint, if it is this worker's turn."""
        if self.reports():
            super().save(metrics)

    def run(self) -> None:
        """Train to the last step, and leave the others."""
        super().run()
        self.manager.shutdown()


def train_func(config: dict[str, Any]) -> None:
    """Train on one Ray Train worker, at the start and again after it was lost."""
    torch.set_num_threads(config["threads"])
    device = ray.train.torch.get_device()
    torch.use_deterministic_algorithms(device.type == "cpu")
    Survivor(config, ray.train.get_context().get_world_rank(), device).run()


if __name__ == "__main__":
    if importlib.util.find_spec("torchft") is None:
        raise SystemExit("this lab has no torchft: it has packages for Linux on x86_64 only")
    torchft_config = TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo")
    train.main(train_func, backend=torchft_config, spread=True)  # a lost node is to be one lost worker
