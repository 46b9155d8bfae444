"""Lesson 8: Ray Tune tries settings, and stops early what is not worth going on with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.evidence.ledger import Number
from lab.ext.course.lessons.catalogue.training import CLEARLY_ABOVE, SUBMIT, succeeded
from lab.ext.course.lessons.model import Evidence, Lesson, answer, failed, passed
from lab.topology import Check

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
    job = evidence.job(PART)
    runs = evidence.histories[job.submission_id].runs if job else ()
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


def enough_trials(evidence: Evidence) -> Check:
    """Ray Train ran several trials that did not fail."""
    name = "several settings were tried"
    count = len(trials(evidence))
    hint = f"at least {MIN_TRIALS}: {SUBMIT}, with --samples 8"
    return answer(count >= MIN_TRIALS, name, f"{count} trials", hint)


def stopped_early(evidence: Evidence) -> Check:
    """Some trials ended before their last epoch, and some trained to the end."""
    name = "poor trials were stopped early, good ones were not"
    early = [trial for trial in trials(evidence) if trial.epochs < trial.planned]
    whole = len(trials(evidence)) - len(early)
    detail = f"{len(early)} stopped early, {whole} trained to the end"
    both = bool(early and whole)
    return answer(both, name, detail, "keep ASHAScheduler, and more than one epoch per trial")


def saved(evidence: Evidence) -> Check:
    """The share of compute that the script says was saved is that of the ledger."""
    name = "compute was saved"
    planned, trained = (sum(getattr(t, key) for t in trials(evidence)) for key in ("planned", "epochs"))
    if not planned:
        return failed(name, "no trial was trained", SUBMIT)
    share = 100 * (1 - trained / planned)
    said = SAVED.search(evidence.log(PART))
    if said is None:
        return failed(name, "the job's log does not say how much", "let the job run to its end")
    detail = f"{said[1]} % by the job's log; by the ledger {share:.0f} %: {trained:g} of {planned:g} epochs"
    right = share > 0 and abs(int(said[1]) - share) <= TOLERANCE
    return answer(right, name, detail, "run tune_ray.py as it is")


def best_found(evidence: Evidence) -> Check:
    """The best trial is named, and it is clearly above chance."""
    name = "the best settings are known"
    said = BEST.search(evidence.log(PART))
    if said is None:
        return failed(name, "the job's log names no best trial", "let the job run to its end")
    if float(said[1]) < CLEARLY_ABOVE:
        return failed(name, said[0], f"{SUBMIT}, with more epochs: --epochs")
    return passed(name, said[0].removeprefix("best: "))


LESSON = Lesson(
    number=8,
    name="tune",
    title="Ray Tune",
    notebook="08-tune.ipynb",
    minutes=25,
    checks=(succeeded(PART), enough_trials, stopped_early, saved, best_found),
    needs=("food11",),
)
