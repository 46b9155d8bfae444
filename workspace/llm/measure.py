"""Measure an OpenAI-style endpoint: ours, vLLM, or any other one that takes lists of tokens.

    python measure.py --url http://127.0.0.1:8000/llm-JOB-NUMBER --picture latencies.png

It sends random prompts, so many in flight, and prints TTFT, TPOT, ITL, E2E, throughput and goodput (timing.py
has their definitions). The token of the endpoint is read from RAYLAB_LLM_TOKEN, or made of the lab's token of
Ray (RAY_AUTH_TOKEN_PATH).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from client import Answer, Failure, Target, answer_all, asking, random_prompts, session
from endpoint import bearer_token
from timing import PERCENTILES, Timing, figures, table


def load(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the settings of a load."""
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--input-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part-seconds", type=float, default=60, help="longest wait for a part of an answer")
    parser.add_argument("--goodput", default="", help="limits in ms, as ttft:500,tpot:50,e2e:5000")
    return parser


def limits(text: str) -> dict[str, float]:
    """The limits of `--goodput`. Raises SystemExit with what is wrong."""
    limits_ms = {}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition(":")
        try:
            limits_ms[name] = float(value)
        except ValueError:
            name = ""
        if name not in ("ttft", "tpot", "e2e"):
            raise SystemExit(f"--goodput {entry}: not of the form ttft:MS, tpot:MS or e2e:MS")
    return limits_ms


async def measure(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Send the load to the endpoint; returns the figures. Prompts that are lost are not sent again."""
    timings: list[Timing] = []
    failures: list[Failure] = []

    async def take(answer: Answer) -> None:
        timings.append(answer.timing)

    prompts = random_prompts(args.prompts, args.input_tokens, args.seed)
    async with session(args.part_seconds) as http:
        began = time.perf_counter()
        ask = asking(http, target, time.perf_counter)
        await answer_all(prompts, ask, args.in_flight, 0.0, take, failures.append)
        seconds = time.perf_counter() - began
    measured = figures(timings, seconds, len(failures), limits(args.goodput), PERCENTILES)
    measured["requests"] = [
        {"id": t.id, "sent_at": t.sent_at - began, "parts": list(t.parts), "input_tokens": t.input_tokens,
         "output_tokens": t.output_tokens} for t in timings
    ]  # fmt: skip
    return measured


def main(argv: Sequence[str] | None = None) -> None:
    parser = load(argparse.ArgumentParser(description="Measure an OpenAI-style endpoint."))
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="llm")
    parser.add_argument("--json", type=Path, help="file for all figures, and the times of each request")
    parser.add_argument("--picture", type=Path, help="PNG or SVG of the latencies (needs matplotlib)")
    args = parser.parse_args(argv)
    target = Target(args.url.rstrip("/"), args.model, bearer_token(), args.output_tokens)
    measured = asyncio.run(measure(target, args))
    print(table(measured))
    if args.json:
        args.json.write_text(json.dumps(measured, indent=1) + "\n")
    if args.picture:
        from picture import draw

        draw(measured, args.picture)


if __name__ == "__main__":
    main()
