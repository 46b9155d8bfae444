"""Live nodes that are declared dead, and healthy devices that are called sick, while every core is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from benchmarks.measure import own_lab, say
from lab.cluster.queues import Document

BUSY = "while True: pass"


def run(minutes: float) -> dict[str, object]:
    """Train `digits` on two workers for `minutes` beside one busy loop per core; count what is wrong."""
    with own_lab("bench-busy") as lab:
        loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
        try:
            end = time.monotonic() + 60 * minutes
            job = lab.submit_recipe("digits", {"epochs": "10000", "workers": "2"}).submission_id
            epochs = 0.0
            doubts: dict[str, int] = {}
            while time.monotonic() < end:
                time.sleep(10)
                history = lab.history(job)
                last = history.runs[-1].last if history.runs else None
                epochs = float(last.progress or 0) if last else 0.0
                dead = [node for node in lab.api.nodes() if not node.alive]
                for told in doubted(lab.health.view()):
                    doubts[told] = doubts.get(told, 0) + 1
                say(
                    f"{(end - time.monotonic()) / 60:.1f} min left: epoch {epochs:g}, "
                    f"{len(dead)} nodes dead, doubts: {doubts or 'none'}"
                )
            attempts = sum(len(run.attempts) for run in lab.history(job).runs)
            dead = [node for node in lab.api.nodes() if not node.alive]
            lab.jobs.stop(job)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
    return {
        "minutes": minutes,
        "busy loops": len(loops),
        "epochs": epochs,
        "attempts": attempts,
        "nodes declared dead": len(dead),
        "reasons": [node.reason for node in dead],
        "doubts": doubts,
        "load": os.getloadavg(),
    }


def doubted(view: Document) -> list[str]:
    """Checks of the view that call something WARN or EVICT, as `node device check state`."""
    return [
        f"{device['node']} {device['device']} {check['name']} {check['state']}"
        for device in view["devices"]
        for check in device["checks"]
        if check["state"] in ("WARN", "EVICT")
    ]


def main(minutes: float) -> None:
    """Print the result as JSON."""
    print(json.dumps(run(minutes), indent=1))
