"""Compare the engine's tokens per second with the bound that memory sets.

    python bound.py --size 5m --threads 2

Each step of decoding has to read all weights, and the keys and values that the slots have. A machine that
copies B bytes a second (read and written) can therefore do no more than B / (bytes read in a step) steps.
Both are measured by turns, and the fastest of each is taken, so that another program's load hits both
alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from engine import Engine, Request
from inference import BLOCK, blocks_of
from model import SIZES, Decoder

COPIED = 32 * 1024 * 1024
"""Numbers (float32) in the tensor that is copied: more than a cache holds."""


def bytes_of_step(model: Decoder, slots: int, places: int) -> int:
    """Bytes that a step of decoding has to read: every weight, and the places of every slot."""
    each = model.embedding.weight.element_size()
    c = model.config
    read = BLOCK * blocks_of(places)
    return each * (
        sum(p.numel() for p in model.parameters()) + 2 * c.layers * c.kv_heads * c.head * read * slots
    )


def fastest(
    actions: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Seconds of the fastest run of each action, which take turns."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            began = clock()
            action()
            best[name] = min(best[name], clock() - began)
    return best


def compare(model: Decoder, slots: int, prompt: int, rounds: int) -> dict[str, float]:
    """Tokens per second of an engine whose slots are all busy, the bound, and their ratio."""
    source = torch.ones(COPIED)
    target = torch.empty_like(source)
    engine = Engine(model, slots)
    length = engine.places - prompt
    for number in range(slots):
        engine.add(Request(str(number), (65,) * prompt, length, ignore_eos=True))
    for _ in range(slots + 2):
        engine.step()  # all are prefilled, and code is warm
    best = fastest(
        {"copy": lambda: target.copy_(source), "step": engine.step}, min(rounds, length - slots - 3)
    )
    bandwidth = 2 * source.numel() * source.element_size() / best["copy"]
    bound = slots * bandwidth / bytes_of_step(model, slots, prompt + slots)
    reached = slots / best["step"]
    return {"bandwidth": bandwidth, "bound": bound, "reached": reached, "share": reached / bound}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the engine with the bound of the machine's memory.")
    parser.add_argument("--size", choices=SIZES, default="5m")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    found = compare(Decoder(SIZES[args.size]), args.slots, args.prompt, args.rounds)
    print(
        f"{args.size}, {args.slots} slots, {args.threads} thread(s): {found['reached']:,.0f} tokens/s, "
        f"{100 * found['share']:.0f} % of the bound of {found['bound']:,.0f} "
        f"that memory sets, which copies {found['bandwidth'] / 1e9:.1f} GB/s"
    )


if __name__ == "__main__":
    main()
