"""From a fault to the first new epoch: the lab's settings against stock Ray's, one-worker `digits`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.measure import Row, own_lab, say
from lab.lab import Lab
from lab.recovery import FaultRequest, inject


def run(runs: int, kinds: Sequence[str]) -> list[Row]:
    """One row per kind of fault. The stock lab is measured first; both labs serve all their runs."""
    measured: dict[bool, dict[str, list[float]]] = {}
    for stock in (True, False):
        measured[stock] = {kind: [] for kind in kinds}
        name = "bench-stock" if stock else "bench-tuned"
        say(f"starting {name}")
        with own_lab(name, stock_ray=stock) as lab:
            for kind in kinds:
                for number in range(runs):
                    seconds = once(lab, kind)
                    say(f"{name} {kind} {number + 1}/{runs}: first new epoch after {seconds:.1f} s")
                    measured[stock][kind].append(seconds)
    return [
        Row(
            f"{kind}: fault to first new epoch",
            tuple(measured[False][kind]),
            "stock Ray settings",
            tuple(measured[True][kind]),
        )
        for kind in kinds
    ]


def once(lab: Lab, kind: str) -> float:
    """Train, break the node that trains, and return the seconds until an epoch was reported again."""
    job = lab.submit_workload("digits", {"epochs": "12"}).submission_id
    while not (workers := lab.placement(job).workers):
        time.sleep(0.5)
    duration = (
        120.0 if kind == "pause" else None
    )  # stock Ray needs more than a minute to give a frozen node up
    request = FaultRequest(workers[0][1], kind, job, after_epoch=3, duration=duration, timeout=240.0)
    first: list[float] = []

    def on_moment(moment: object) -> None:
        if getattr(moment, "key", "") == "first_report":
            first.append(getattr(moment, "seconds", 0.0))

    receipt = inject(lab, request, on_moment).receipt
    if receipt is None or receipt.verdict != "recovered" or not first:
        raise SystemExit(f"{kind}: not recovered: {receipt.reason if receipt else 'no receipt'}")
    return first[0]
