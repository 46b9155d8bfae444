"""Compare the engine's tokens per second with the bounds that memory and arithmetic set.

    python bound.py --size 5m --threads 2

Each step of decoding has to read all weights, and the keys and values that the slots have. A machine that
copies B bytes a second (read and written) can therefore do no more than B / (bytes read in a step) steps.
With many slots a step also multiplies so much that the products set a bound: F / (operations of a step)
for a machine that does F operations a second in a large product of matrices.

All are measured by turns, and the fastest of each is taken, so that another program's load hits all alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from engine import Engine, Request
from inference import BLOCK, Matrix, blocks_of
from model import SIZES, Decoder
from native import KERNELS, settle

COPIED = 32 * 1024 * 1024
"""Numbers (float32) in the tensor that is copied: more than a cache holds."""

SIDE = 1024
"""Rows and columns of the matrices that are multiplied."""


def bytes_of_step(model: Decoder, slots: int, places: int) -> int:
    """Bytes that a step of decoding has to read: every weight, and the places of every slot."""
    size = model.embedding.weight.element_size()
    c = model.config
    read = BLOCK * blocks_of(places)
    return size * (
        sum(p.numel() for p in model.parameters()) + 2 * c.layers * c.kv_heads * c.head * read * slots
    )


def operations_of_step(model: Decoder, slots: int, places: int) -> float:
    """Floating-point operations of a step of decoding: two for each weight of a matrix, and attention's."""
    return slots * model.config.flops_per_token(BLOCK * blocks_of(places)) / 3  # it counts training


def fastest(
    actions: dict[str, Callable[[], object]],
    rounds: int,
    turn: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of the fastest run of each action. They take turns of so many runs each.

    The first run of a turn finds the processor's caches as another action has left them.
    """
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            for _ in range(turn):
                began = clock()
                action()
                best[name] = min(best[name], clock() - began)
    return best


@dataclass(frozen=True)
class Bounds:
    """Rates of the machine and of an engine whose slots are all busy."""

    bandwidth: float
    """Bytes a second, read and written."""
    peak: float
    """Floating-point operations a second."""
    memory: float
    """Tokens a second that memory allows."""
    arithmetic: float
    """Tokens a second that the products of matrices allow."""
    reached: float
    """Tokens a second of the engine."""

    def __str__(self) -> str:
        lower = "memory" if self.memory < self.arithmetic else "arithmetic"
        return (
            f"{self.reached:,.0f} tokens/s: {100 * self.reached / self.memory:.0f} % of the bound of "
            f"{self.memory:,.0f} by memory, which copies {self.bandwidth / 1e9:.1f} GB/s; "
            f"{100 * self.reached / self.arithmetic:.0f} % of that of {self.arithmetic:,.0f} by arithmetic, "
            f"{self.peak / 1e9:,.0f} GFLOP/s; the lower one is that by {lower}"
        )


@torch.inference_mode()
def compare(model: Decoder, slots: int, prompt: int, rounds: int, kernel: str = "torch") -> Bounds:
    """Measure an engine whose slots are all busy, and the machine."""
    source = torch.ones(COPIED)
    target = torch.empty_like(source)
    factor = torch.ones(SIDE, SIDE, dtype=model.embedding.weight.dtype)
    matrix = Matrix(factor)
    engine = Engine(model, slots, kernel=kernel)
    length = engine.places - prompt
    for number in range(slots):
        engine.add(Request(str(number), (65,) * prompt, length, ignore_eos=True))
    for _ in range(slots + 2):
        engine.step()  # all are prefilled, and code is warm
    best = fastest(
        {"copy": lambda: target.copy_(source), "product": lambda: matrix(factor), "step": engine.step},
        min(rounds, (length - slots - 3) // 3),
    )
    bandwidth, peak = 2 * source.numel() * source.element_size() / best["copy"], 2 * SIDE**3 / best["product"]
    places = prompt + slots
    return Bounds(
        bandwidth,
        peak,
        memory=slots * bandwidth / bytes_of_step(model, slots, places),
        arithmetic=slots * peak / operations_of_step(model, slots, places),
        reached=slots / best["step"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the engine with the bounds of the machine.")
    parser.add_argument("--size", choices=SIZES, default="5m")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--kernel", choices=KERNELS, default="auto", help="what decodes")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = Decoder(SIZES[args.size]).to(getattr(torch, args.dtype))
    kernel = settle(args.kernel)
    bound = compare(model, args.slots, args.prompt, args.rounds, kernel)
    print(
        f"{args.size}, {args.dtype}, kernel {kernel}, {args.slots} slots, {args.threads} thread(s): {bound}"
    )


if __name__ == "__main__":
    main()
