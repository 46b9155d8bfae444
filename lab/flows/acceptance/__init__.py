"""`doctor --gpu-acceptance`: checks of a lab on real GPUs, ten minutes in all, and a report that can be sent.

What it does is what `gpus`, `health`, `submit` and `fault-inject` do; only the all-reduce is of its own.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass

from lab.errors import LabError, RefusedError
from lab.flows.acceptance.questions import COMPUTES, Question, all_questions
from lab.host import redaction
from lab.host.clock import MONOTONIC, WALL, Clock
from lab.host.quantities import plural
from lab.lab import Lab
from lab.runtime import lent
from lab.topology import Check, Vendor
from lab.version import __version__

__all__ = ["SECONDS", "Acceptance"]

SCHEMA = "gpu-acceptance/1"

SECONDS = 600.0
"""Time for all of it. No question is begun that cannot be answered in the rest."""

NOT_ASKED = "not asked: the acceptance ended before that"
NO_TIME = "not asked: the ten minutes are over"
NEEDS = f"needs a GPU that computes: `{COMPUTES}` has not passed"


@dataclass(frozen=True)
class Answer:
    """A check, and the seconds that it took; None where it was not made."""

    check: Check
    seconds: float | None = None


class Acceptance:
    """The acceptance of the GPUs of one lab, which is up and has nothing else to do."""

    def __init__(self, lab: Lab, *, clock: Clock = MONOTONIC, wall: Clock = WALL) -> None:
        """Look, and change nothing. Raises LabDownError, RefusedError for a lab without GPUs or with jobs."""
        plan = lab.gpu_plan
        if plan.vendor not in (Vendor.NVIDIA, Vendor.AMD):
            raise RefusedError(
                f"lab {lab.name} has no GPUs (GPU {plan.vendor.value})",
                "`labctl down`, then `labctl up --gpu nvidia` (or amd)",
            )
        if jobs := [job.submission_id for job in lab.jobs.list() if not job.final]:
            raise RefusedError(
                f"{plural(len(jobs), 'job')} of lab {lab.name} would be disturbed: {', '.join(jobs)}",
                "wait until they have ended, or stop them: `labctl jobs stop ID`",
            )
        if loans := lent.notes(lab.control.folder()):
            raise RefusedError(
                f"workers of lab {lab.name} are away: {'; '.join(loans)}",
                "`labctl class remove NAME --own-lab` ends such a lab",
            )
        self._lab, self._plan, self._clock = lab, plan, clock
        self._begun, self._at = clock(), wall()
        at = lab.endpoints()
        keys = (at.credentials.secret_key, at.credentials.access_key, at.ray_token, at.grafana_password)
        self._redaction = redaction.of_this_machine(*keys)
        self._questions = all_questions(lab, plan, clock)
        self._answers = {q.name: Answer(Check(q.name, "skipped", NOT_ASKED)) for q in self._questions}

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, also those that have not been made."""
        return tuple(answer.check for answer in self._answers.values())

    def run(self, on_progress: Callable[[str], None], keep: Callable[[dict[str, object]], None]) -> None:
        """Ask every question. `keep` gets the report before the first one and after each.

        What fails is an answer; what was started is ended, whatever happens.
        """
        keep(self.report())
        for question in self._questions:
            left = self._begun + SECONDS - self._clock()
            if reason := self._why_not(question, left):
                answer = Answer(Check(question.name, "skipped", reason))
            else:
                on_progress(f"{question.name} (at most {min(left, question.seconds):.0f} s)")
                begin = self._clock()
                check = _ask(question, min(left, question.seconds))
                answer = Answer(check, self._clock() - begin)
            self._answers[question.name] = answer
            keep(self.report())
            took = "" if answer.seconds is None else f" after {answer.seconds:.1f} s"
            on_progress(f"{question.name}: {answer.check.outcome}{took}")

    def report(self) -> dict[str, object]:
        """The document to send, as far as it is known: without secrets, addresses, or the machine's name."""
        return {
            "schema": SCHEMA,
            "raylab": __version__,
            "at": self._at,
            "seconds": round(self._clock() - self._begun, 1),
            "runtime": self._lab.view.kind,
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "vendor": self._plan.vendor.value,
            "gpus": [assignment.name for assignment in self._plan.assignments],
            "shared": self._plan.shared,
            "ok": all(check.outcome != "failed" for check in self.checks),
            "not_checked": [check.name for check in self.checks if check.outcome == "skipped"],
            "checks": [
                {
                    "name": check.name,
                    "outcome": check.outcome,
                    "detail": self._redaction.text(check.detail),
                    "hint": self._redaction.text(check.hint),
                    "seconds": answer.seconds and round(answer.seconds, 1),
                }
                for answer in self._answers.values()
                for check in (answer.check,)
            ],
        }

    def _why_not(self, question: Question, left: float) -> str:
        if question.computes and self._answers[COMPUTES].check.outcome != "passed":
            return NEEDS
        return NO_TIME if left < question.least else ""


def _ask(question: Question, seconds: float) -> Check:
    try:
        passed, detail = question.ask(seconds)
    except LabError as error:
        return Check(question.name, "failed", error.message, error.hint)
    return Check(question.name, "skipped" if passed is None else "passed" if passed else "failed", detail)
