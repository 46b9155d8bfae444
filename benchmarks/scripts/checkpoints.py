"""Job in the measured lab: trains the recipe `llm`, in turns with and without a checkpoint, in one process.

Prints a JSON line with `with` and `without`: seconds of each turn of ten steps. A checkpoint is begun before
the first of its ten steps and is complete at the end of the turn: what is written aside is paid for as well.
Each pair of turns begins with the side that ended the pair before, so that neither side is always first.
The recipe's modules lie beside this one.
"""

from __future__ import annotations

import json
import time
from typing import Any

import ray
import ray.train
import torch
import train  # type: ignore[import-not-found]

STEPS = 10


class Turns(train.Training):  # type: ignore[misc]
    """A training in turns of ten steps, half of which have a checkpoint."""

    def run(self) -> None:
        seconds: dict[str, list[float]] = {"with": [], "without": []}
        for number in range(self.config["turns"] + 1):
            for side in reversed(seconds) if number % 2 else seconds:
                took = self.turn(checkpoint=side == "with")
                if number:  # what is first of its kind takes longer
                    seconds[side].append(took)
        self.save({"step": self.step, **seconds})  # a run's metrics are those of its newest checkpoint

    def turn(self, checkpoint: bool) -> float:
        """Seconds of ten steps."""
        began = time.perf_counter()
        if checkpoint:
            self.save({"step": self.step})
        for _ in range(STEPS):
            self.train_step()
        self.saver.finish()
        return time.perf_counter() - began


def turns(config: dict[str, Any]) -> None:
    torch.set_num_threads(config["threads"])
    context, device = ray.train.get_context(), ray.train.torch.get_device()
    Turns(config, context.get_world_rank(), context.get_world_size(), device).run()


def main() -> None:
    parser = train.settings()
    parser.add_argument("--turns", type=int, default=30)
    args = parser.parse_args()
    vars(args)["steps"] = 1_000_000  # it ends by its turns
    ray.init(log_to_driver=False)
    metrics = train.trainer(args, f"turns-{args.workers}", turns).fit().metrics
    print(json.dumps({side: metrics[side] for side in ("with", "without")}), flush=True)


if __name__ == "__main__":
    main()
