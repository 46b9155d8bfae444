"""Live nodes that are declared dead, and healthy devices that are called sick, on a busy machine."""

from __future__ import annotations

import contextlib
import json
import os
import time

from benchmarks.hardship import machine_under_load, stand_still
from benchmarks.measure import own_lab, say
from lab.api.health import HealthView
from lab.errors import LabError
from lab.host.quantities import plural
from lab.lab import Lab

EPOCHS = "10000"
"""The most that the recipe takes: an hour and a half of an idle machine."""

LOOK_SECONDS = 10.0
FREE_SHARE = 0.1
"""Share of the memory that stays available in a hard run: Ray kills ranks below 5 %."""

STILL_SECONDS = 5.0
CALM_SECONDS = 120.0
"""Time in which a lab answers again after the load has ended."""

LOOPS_TOGETHER = 15
"""Loops of a session: a machine on which some people run much, not one on which a hundred run a loop each."""


class Seen:
    """Everything that went wrong so far, and how far the job is."""

    def __init__(self, lab: Lab, job: str) -> None:
        self.epochs, self.attempts = 0.0, 0
        self.dead: dict[str, str] = {}
        self.doubts: dict[str, int] = {}
        self.silences = 0
        self._lab, self._job = lab, job

    def __str__(self) -> str:
        wrong = f"dead: {self.dead or 'none'}, doubts: {self.doubts or 'none'}"
        progress = f"epoch {self.epochs:g}, {plural(self.attempts, 'attempt')}"
        return f"{progress}, {wrong}, {plural(self.silences, 'look')} without an answer"

    def look(self) -> None:
        """Look once; a lab that does not answer in time is worth a count."""
        try:
            history = self._lab.history(self._job)
            last = history.runs[-1].last if history.runs else None
            self.epochs = float(last.progress or 0) if last else self.epochs
            self.attempts = sum(len(run.attempts) for run in history.runs)
            self.dead.update(
                {n.node_id[:8]: f"{n.service}: {n.reason}" for n in self._lab.api.nodes() if not n.alive}
            )
            for doubt in doubted(self._lab.health.view()):
                self.doubts[doubt] = self.doubts.get(doubt, 0) + 1
        except LabError:
            self.silences += 1


def run(minutes: float, busy: int, runtime: str, *, hard: bool) -> dict[str, object]:
    """Train `digits` on two workers for `minutes` beside so many busy loops; count what is wrong.

    A `hard` run also writes to the disk, takes the memory, and lets the lab stand still for some seconds.
    """
    with own_lab("bench-busy", runtime=runtime) as lab:
        job = lab.submit_recipe("digits", {"epochs": EPOCHS, "workers": "2"}).submission_id
        seen = Seen(lab, job)
        while seen.epochs < 1:
            time.sleep(1.0)
            seen.look()
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        hardship = (2, int(FREE_SHARE * memory)) if hard else (0, 0)
        with machine_under_load(busy, *hardship, together=LOOPS_TOGETHER):
            begin = time.monotonic()
            still = [60 * minutes / 2] if hard else []
            while (passed := time.monotonic() - begin) < 60 * minutes:
                if still and passed >= still[0]:
                    still.pop()
                    stand_still(lab, STILL_SECONDS)
                time.sleep(LOOK_SECONDS)
                seen.look()
                say(f"{passed / 60:.1f} of {minutes:g} min, load {os.getloadavg()[0]:.0f}: {seen}")
            load = os.getloadavg()
        status = last_status(lab, job)
        seen.look()
        with contextlib.suppress(LabError):
            lab.jobs.stop(job)
    return {
        "minutes": minutes,
        "busy loops": busy,
        "epochs": seen.epochs,
        "attempts": seen.attempts,
        "job": status,
        "nodes declared dead": len(seen.dead),
        "reasons": sorted(seen.dead.values()),
        "doubts": seen.doubts,
        "looks without an answer": seen.silences,
        "load": load,
    }


def last_status(lab: Lab, job: str) -> str:
    """Status of the job, as soon as the lab answers again: what was asked meanwhile waits in line."""
    end = time.monotonic() + CALM_SECONDS
    while True:
        try:
            return lab.jobs.get(job).status
        except LabError:
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


def doubted(view: HealthView) -> list[str]:
    """Checks of the view that call something WARN or EVICT, as `node device check state`."""
    return [
        f"{device.node} {device.device} {check.name} {check.state}"
        for device in view.devices
        for check in device.checks
        if check.state in ("WARN", "EVICT")
    ]


def main(minutes: float, busy: int, runtime: str, *, hard: bool) -> None:
    """Print the result as JSON."""
    print(json.dumps(run(minutes, busy, runtime, hard=hard), indent=1))
