"""Lesson 8: Ray Tune tries settings, and stops early what is not worth going on with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.evidence.ledger import Number
from lab.ext.course.lessons.catalogue.training import CLEARLY_ABOVE, succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, check, holds, need

PART = "tune"
MIN_TRIALS = 6
SAVED = re.compile(r"compute saved: (\d+) %")
BEST = re.compile(r"^best: .*val_accuracy (\d\.\d+)", re.MULTILINE)

TOLERANCE = 15
"""Percentage points by which the script's sum may differ from the ledger's: a trial that Tune stops may
already be in its next epoch."""


@dataclass(frozen=True)
class Trial:
    """One trial as the ledger has it. A trial that was started again is one trial with several runs."""

    epochs: Number
    """Trained."""
    planned: Number


def trials(evidence: Evidence) -> tuple[Trial, ...]:
    """The trials of the lesson's job that began to train and did not fail.

    A trial has failed when its newest run ended with an error. One that Tune stopped has no end there.
    """
    runs = evidence.histories[evidence.submitted(PART).submission_id].runs
    errors = {run.name: run.error for run in runs}
    by_name: dict[str, Trial] = {}
    for run in runs:
        if errors[run.name] is not None:
            continue
        reached = max((a.furthest for a in run.attempts if a.furthest is not None), default=None)
        planned = run.plan.epochs if run.plan else None
        if reached is None or planned is None:
            continue
        before = by_name.get(run.name)
        by_name[run.name] = Trial(max(reached, before.epochs) if before else reached, planned)
    return tuple(by_name.values())


@check("several settings were tried", f"at least {MIN_TRIALS}: {SUBMIT}, with --samples 8")
def enough_trials(evidence: Evidence) -> str:
    count = len(trials(evidence))
    return holds(count >= MIN_TRIALS, f"{count} trials")


@check("poor trials were stopped early, good ones were not", "keep ASHAScheduler, and more than one epoch")
def stopped_early(evidence: Evidence) -> str:
    early = sum(trial.epochs < trial.planned for trial in trials(evidence))
    whole = len(trials(evidence)) - early
    return holds(early > 0 and whole > 0, f"{early} stopped early, {whole} trained to the end")


@check("compute was saved", "run tune_ray.py as it is")
def saved(evidence: Evidence) -> str:
    """The share of compute that the script says was saved is that of the ledger."""
    planned, trained = (sum(getattr(t, key) for t in trials(evidence)) for key in ("planned", "epochs"))
    share = 100 * (1 - trained / planned)
    said = need(SAVED.search(evidence.log(PART)), "the job's log does not say how much")[1]
    detail = f"{said} % by the job's log; by the ledger {share:.0f} %: {trained:g} of {planned:g} epochs"
    return holds(share > 0 and abs(int(said) - share) <= TOLERANCE, detail)


@check("the best settings are known", f"{SUBMIT}, with more epochs: --epochs")
def best_found(evidence: Evidence) -> str:
    """The best trial is named, and it is clearly above chance."""
    said = need(BEST.search(evidence.log(PART)), "the job's log names no best trial")
    return holds(float(said[1]) >= CLEARLY_ABOVE, said[0].removeprefix("best: "))


LESSON = Lesson(
    number=8,
    name="tune",
    title="Ray Tune",
    minutes=25,
    checks=(succeeded(PART), enough_trials, stopped_early, saved, best_found),
    needs=("food11",),
)
