"""Soak test: chaos on job after job for any time; counts survived faults, losses and leaks."""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from benchmarks.leaks import Idle, idle
from benchmarks.measure import own_lab, say
from lab.errors import LabError
from lab.ext.chaos.plan import Plan, Step, random_plan
from lab.ext.chaos.result import ChaosResult
from lab.ext.chaos.run import run_chaos
from lab.faults import Scope, catalogue
from lab.flows.recovery import Moment
from lab.lab import Lab
from lab.runtime.base import Runtime
from lab.topology import JOB_FINAL

ROUND_SECONDS = 300.0
"""Time during which faults hit one job; then the job ends, and the idle lab is measured."""

LEAST_EPOCHS, MOST_EPOCHS = 30, 2000
FIRST_EPOCHS = 60
MOST_FAULTS = 100_000


@dataclass
class Round:
    """One job, and the chaos that it went through."""

    number: int
    ranks: int
    epochs: int
    job: str = ""
    result: ChaosResult | None = None
    problem: str = ""
    """Reason why there is no result."""
    after: Idle | None = None

    @property
    def line(self) -> str:
        """Summary of the round in one line."""
        if self.result is None or self.after is None:
            return f"round {self.number}: {self.problem}"
        r, left = self.result, self.after
        state = ", ".join((*left.ill, *(f"left: {name}" for name in left.faults_left))) or "lab whole"
        totals = ", ".join(f"{name} {value}" for name, value in left.totals.items())
        return (
            f"round {self.number}: job {r.job} ({self.ranks} ranks, {self.epochs} epochs) {r.status}; "
            f"{len(r.injected)} faults, {r.survived} survived, {len(r.steps) - len(r.injected)} left out; "
            f"{r.checkpoints} checkpoints, {len(r.lost)} lost; {state}; idle: {totals}"
        )


@dataclass
class Story:
    """Progress output: a line for each fault, once it is over."""

    began: float
    number: int = 0
    _held: str = ""
    _parts: list[str] = field(default_factory=list)

    def moment(self, moment: Moment) -> None:
        """Handle one moment of the chaos."""
        if moment.key in ("step", "left out", "to the end", "judging", "problem", "note"):
            self._flush()
            if moment.key == "step":
                self._held = moment.text
            elif moment.key != "to the end":
                say(f"{self._clock()} {moment.key}: {moment.text}")
        elif moment.key in ("first_report", "reverted") and moment.seconds is not None:
            what = "training goes on" if moment.key == "first_report" else "undone"
            self._parts.append(f"{what} after {moment.seconds:.1f} s")

    def _flush(self) -> None:
        if self._held:
            say(f"{self._clock()} {self._held}: {', '.join(self._parts) or 'nothing happened'}")
        self._held, self._parts = "", []

    def _clock(self) -> str:
        return f"{(time.time() - self.began) / 60:6.2f} min  round {self.number} "


def possible_faults(runtime: Runtime) -> tuple[str, ...]:
    """Return every fault that this runtime supports and that does not end the job by itself."""
    kinds = (kind for kind in catalogue() if kind.scope is not Scope.CLUSTER)
    return tuple(kind.name for kind in kinds if not any(runtime.missing(need) for need in kind.needs))


def run(minutes: float, runtime: str, seed: int, every: float, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Run chaos in a new lab for so many minutes; return the figures as JSON. Ctrl-C ends it earlier."""
    begin = time.time()
    with own_lab(f"soak-{runtime}", runtime=runtime) as lab:
        chosen = tuple(kinds) or possible_faults(lab.runtime)
        say(f"lab {lab.name} is up after {time.time() - begin:.0f} s; faults: {', '.join(chosen)}")
        first, began = idle(lab), time.time()
        story, epochs = Story(began), FIRST_EPOCHS
        drawn = random_plan(chosen, every=every, seed=seed, limit=MOST_FAULTS).steps()
        bag: list[Step] = []
        rounds: list[Round] = []
        while (left := began + 60 * minutes - time.time()) > 0:
            story.number = len(rounds) + 1
            seconds = min(ROUND_SECONDS, left)
            bag += islice(drawn, max(0, math.ceil(seconds / every) - len(bag)))
            this = Round(story.number, 2 - len(rounds) % 2, epochs)
            steps = tuple(replace(step, at=number * every) for number, step in enumerate(bag, 1))
            _round(lab, this, Plan(written=steps, seconds=seconds), story.moment)
            rounds.append(this)
            bag = bag[len(this.result.steps) if this.result else 1 :]
            say(this.line)
            if this.result is not None and this.result.interrupt is not None:
                break
            epochs = _next_epochs(this, min(ROUND_SECONDS, began + 60 * minutes - time.time()))
        return figures(rounds, first, time.time() - began, chosen)


def _round(lab: Lab, this: Round, plan: Plan, tell: Callable[[Moment], None]) -> None:
    """Run one job to its end and make the lab whole again; record what prevents that."""
    try:
        asked = {"epochs": str(this.epochs), "workers": str(this.ranks), "max-failures": "-1"}
        this.job = lab.submit_recipe("digits", asked).submission_id
        this.result = run_chaos(lab, plan, tell, job=this.job)
        if this.result.status not in JOB_FINAL:
            lab.jobs.stop(this.job)
    except LabError as error:
        this.problem = f"{type(error).__name__}: {error.message}"
        _stop(lab, this.job)
    this.after = idle(lab)
    for service in lab.status().services:
        if service.state.value != "healthy":
            say(f"{service.service} is {service.state.value} after the round, and is started again")
            lab.runtime.start(service.service)


def _stop(lab: Lab, job: str) -> None:
    try:
        if job and not lab.jobs.get(job).final:
            lab.jobs.stop(job)
    except LabError as error:
        say(f"job {job} could not be stopped: {error.message}")


def _next_epochs(this: Round, seconds: float) -> int:
    """Estimate from the previous round how many epochs fill this time."""
    if this.result is None or not this.result.checkpoints:
        return this.epochs
    pace = this.result.checkpoints / max(1.0, this.result.ended - this.result.began)
    return round(min(MOST_EPOCHS, max(LEAST_EPOCHS, pace * seconds)))


def figures(rounds: Sequence[Round], first: Idle, seconds: float, kinds: Sequence[str]) -> dict[str, Any]:
    """Return the figures of a soak test."""
    results = [turn.result for turn in rounds if turn.result is not None]
    steps = [(result, step) for result in results for step in result.steps]
    looks = [turn.after for turn in rounds if turn.after is not None]
    return {
        "minutes": round(seconds / 60, 2),
        "load": [round(mean, 1) for mean in os.getloadavg()],
        "rounds": len(rounds),
        "jobs succeeded": sum(result.status == "SUCCEEDED" for result in results),
        "faults injected": sum(len(result.injected) for result in results),
        "faults survived": sum(result.survived for result in results),
        "faults left out": sum(step.receipt is None for _, step in steps),
        "checkpoints committed": sum(result.checkpoints for result in results),
        "checkpoints lost": sum(len(result.lost) for result in results),
        "by kind": {kind: _of_kind(kind, [step for _, step in steps]) for kind in kinds},
        "not survived": [
            {
                "job": result.job,
                "fault": step.step.kind,
                "target": step.target,
                "at": step.receipt.fault.at,
                "verdict": step.receipt.verdict.value,
                "reason": step.receipt.reason,
            }
            for result, step in steps
            if step.receipt is not None and not step.receipt.verdict.good
        ],
        "problems": [p for turn in rounds for p in ([turn.problem] if turn.problem else [])]
        + [problem for result in results for problem in result.problems],
        "idle": {
            "before": first.document(),
            "after the first round": looks[0].document() if looks else None,
            "after the last round": looks[-1].document() if looks else None,
        },
        "every round": [turn.line for turn in rounds],
    }


def _of_kind(kind: str, steps: Sequence[Any]) -> dict[str, Any]:
    mine = [step for step in steps if step.step.kind == kind]
    injected = [step for step in mine if step.receipt is not None]
    down = [step.downtime for step in injected if step.downtime is not None]
    return {
        "injected": len(injected),
        "survived": sum(step.receipt.verdict.good for step in injected),
        "left out": len(mine) - len(injected),
        "median downtime s": round(statistics.median(down), 1) if down else None,
        "worst downtime s": round(max(down), 1) if down else None,
    }


def table(summary: dict[str, Any]) -> str:
    """Format the figures as Markdown."""
    lines = [
        f"{summary['minutes']} minutes, {summary['rounds']} jobs, "
        f"{summary['jobs succeeded']} of them SUCCEEDED: {summary['faults injected']} faults injected, "
        f"{summary['faults survived']} survived, {summary['faults left out']} left out; "
        f"{summary['checkpoints committed']} checkpoints committed, {summary['checkpoints lost']} lost.",
        "",
        "| fault | injected | survived | left out | median downtime s | worst |",
        "| --- " * 6 + "|",
    ]
    for kind, row in summary["by kind"].items():
        lines.append(f"| {kind} | " + " | ".join("" if v is None else str(v) for v in row.values()) + " |")
    lines += ["", "| the lab idle | " + " | ".join(summary["idle"]) + " |", "| --- " * 4 + "|"]
    looks = [look for look in summary["idle"].values() if look]
    for name in looks[0]["totals"]:
        lines.append(f"| {name} | " + " | ".join(str(look["totals"].get(name, "")) for look in looks) + " |")
    for name in ("faults_left", "ill"):
        lines.append(f"| {name} | " + " | ".join(", ".join(look[name]) or "none" for look in looks) + " |")
    lines += [f"\nnot survived: {json.dumps(row)}" for row in summary["not survived"]]
    lines += [f"\nproblem: {problem}" for problem in summary["problems"]]
    return "\n".join(lines)
