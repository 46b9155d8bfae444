"""Live nodes that are declared dead by mistake while every core of the machine is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from benchmarks.measure import own_lab, say

BUSY = "while True: pass"


def run(minutes: float) -> dict[str, object]:
    """Train `digits` on two workers for `minutes` beside one busy loop per core; count the dead nodes."""
    with own_lab("bench-busy") as lab:
        loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
        try:
            end = time.monotonic() + 60 * minutes
            job = lab.submit_recipe("digits", {"epochs": "10000", "workers": "2"}).submission_id
            epochs = 0.0
            while time.monotonic() < end:
                time.sleep(10)
                history = lab.history(job)
                last = history.runs[-1].last if history.runs else None
                epochs = float(last.progress or 0) if last else 0.0
                dead = [node for node in lab.api.nodes() if not node.alive]
                say(f"{(end - time.monotonic()) / 60:.1f} min left: epoch {epochs:g}, {len(dead)} nodes dead")
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
        "load": os.getloadavg(),
    }


def main(minutes: float) -> None:
    """Print the result as JSON."""
    print(json.dumps(run(minutes), indent=1))
