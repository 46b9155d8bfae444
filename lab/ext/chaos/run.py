"""Runs a plan against a job: one fault at a time, each followed until training goes on."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import islice

from lab.api.base import plain
from lab.errors import LabError, RefusedError, StoreError, WaitTimeoutError
from lab.evidence.ledger import Number, Run
from lab.ext.chaos.plan import Plan, Step, with_epoch
from lab.ext.chaos.result import ChaosResult, StepResult, Stored, judge_steps, lost_checkpoints
from lab.ext.chaos.waiting import JobWaits
from lab.faults import Fault, FaultKind, Scene, Scope, find_fault
from lab.flows.recovery import (
    Aim,
    FaultRequest,
    Injection,
    Moment,
    OnMoment,
    Watch,
    check_target,
    ended,
    live_job,
    outages,
    run_control,
    take_aim,
)
from lab.host.clock import WALL, Clock
from lab.host.quantities import plural
from lab.lab import Lab
from lab.services import is_worker
from lab.topology import State

AHEAD_REPORTS = 4
AHEAD_SECONDS = 8.0
"""Distance of a fault's epoch from the last one reported, in reports and at least in seconds: the rank must
hear of it first."""


def pick_target(watch: Watch, kind: FaultKind, step: Step) -> tuple[Aim, dict[str, float]]:
    """The aim of a step, and the parameters that its fault is given.

    It hits the target that it names; else the rank that its share falls on, or the node of that rank. Raises
    RefusedError, NotFoundError.
    """
    target, given = check_target(watch.lab.control, step.target, kind), dict(step.parameters)
    attempt = watch.live_attempt
    drawn = None
    if not target and attempt is not None and attempt.nodes:
        ranks = sorted(attempt.nodes)
        drawn = int(given.get("rank", ranks[min(int(step.share * len(ranks)), len(ranks) - 1)]))
        node = attempt.nodes.get(drawn, "")
        target = next((n.service for n in watch.nodes if n.node_id == node), "")
    aim = take_aim(watch, target, kind)
    if aim is None:
        raise RefusedError("the job did not train at that moment", "choose a longer --every")
    takes_rank = any(parameter.name == "rank" for parameter in kind.parameters)
    if takes_rank and drawn is not None and any(rank.rank == drawn for rank in aim.ranks):
        given["rank"] = float(drawn)
    return aim, given


def next_epoch(run: Run | None, pace: float | None) -> float:
    """The first epoch that a rank can still be told of, as the run counts. `pace`: seconds per report."""
    ahead = max(AHEAD_REPORTS, math.ceil(AHEAD_SECONDS / pace) if pace else 0)
    return float(math.ceil(_reached(run) + ahead * (run.stride if run else 1)))


def _reached(run: Run | None) -> Number:
    last = run.last if run else None
    return last.progress if last is not None and last.progress is not None else 0


CHAOS_PREFIX = ".raylab/chaos"
"""Folder of the results in the bucket."""

SUBMIT = "labctl submit digits -p epochs=200 -p max-failures=-1 --detach"
"""Submits a job that lasts, and that outlives any number of faults."""

END_SECONDS = 10.0
"""A job that will have ended after so long gets no more faults: one needs some time to take effect."""

COUNTED = 1000
"""Upper bound when counting the planned faults."""


class Chaos:
    """One chaos run."""

    def __init__(self, watch: Watch, plan: Plan, on_moment: OnMoment) -> None:
        self._watch, self._lab, self._clock = watch, watch.lab, watch.clock
        self._plan, self._on_moment = plan, on_moment
        self._waiting = JobWaits(watch)
        self._done: list[StepResult] = []
        self._stored: Stored = {}
        self._problems: list[str] = []

    def run(self, control: bool) -> ChaosResult:
        """Carry the plan out, wait for the job's end, judge each fault, and sum up.

        An interrupt ends the chaos, not the judging. Raises WaitTimeoutError when the job does not train.
        """
        self._tell("waiting", f"waiting for job {self._watch.submission_id} to train")
        self._wait_for_the_training()
        self._say_what_it_survives()
        began, interrupt = self._clock(), None
        try:
            self._carry_out(began)
            self._tell("to the end", f"waiting for job {self._watch.submission_id} to end")
            self._problem(self._waiting.to_the_end())
        except KeyboardInterrupt as error:
            interrupt = error
            self._watch.poll()
        result = replace(self._sum_up(began), interrupt=interrupt)
        self._keep(result)
        if control and interrupt is None and result.status == "SUCCEEDED":
            result = self._compared(result)
            self._keep(result)
        return replace(result, problems=tuple(self._problems))

    # Before the first fault

    def _wait_for_the_training(self) -> None:
        why = self._waiting.steady(0.0)
        job = self._watch.job
        if self._watch.over and job is not None:
            raise ended(self._lab, job, SUBMIT, "any fault")
        if why:
            state = f"it is {job.status}" if job else "Ray does not say how it stands"
            raise WaitTimeoutError(
                f"job {self._watch.submission_id} can take no more chaos: {why}; {state}",
                f"labctl jobs logs {self._watch.submission_id}",
            )

    def _say_what_it_survives(self) -> None:
        run = self._watch.run
        most = run.plan.max_failures if run and run.plan else None
        steps = sum(1 for _ in islice(self._plan.steps(), COUNTED))
        if most is not None and 0 <= most < steps:
            may = f"{steps} faults" if steps < COUNTED else "more"
            self._tell(
                "note",
                f"job {self._watch.submission_id} gives up after {most} failures, and {may} may come: "
                "submit it with -p max-failures=-1",
            )

    # The faults

    def _carry_out(self, began: float) -> None:
        for number, step in enumerate(self._plan.steps(), 1):
            self._waiting.until(began + step.at)
            why = self._waiting.steady(self._last_over())
            late = self._plan.seconds is not None and self._clock() - began > self._plan.seconds
            if self._watch.over or late:
                return
            if why:
                self._problem(f"no more faults from number {number} on: {why}")
                return
            try:
                self._inject(number, step)
            except LabError as error:
                self._watch.poll()
                if self._watch.over:
                    return
                self._done.append(StepResult(step, step.target, skipped=error.message))
                self._tell("left out", f"{number}. {step.kind}: {error.message}")

    def _last_over(self) -> float:
        """Time at which the fault before was reverted; 0 before the first one."""
        records = [done.record for done in self._done if done.record is not None]
        return (records[-1].reverted_at or records[-1].at) if records else 0.0

    def _inject(self, number: int, step: Step) -> None:
        """Inject a fault. Raises LabError when nothing was done, an interrupt after the fault was undone."""
        fault = find_fault(step.kind)
        run, pace = self._watch.run, self._waiting.pace()
        aim, given = pick_target(self._watch, fault.kind, step)
        parameters = fault.kind.settle(with_epoch(fault.kind, given, next_epoch(run, pace)))
        fault.refuse(Scene(self._lab.control, aim.target, self._watch.submission_id, parameters))
        self._refuse_the_last(fault, aim)
        self._refuse_the_end()
        self._watch.target = aim.target if is_worker(aim.target) else ""
        self._tell("step", f"{number}. {step.kind} {aim.target}")
        injection = Injection(self._watch, fault, aim, parameters, self._on_moment, FaultRequest())
        try:
            injection.run(to_the_end=False)
        except BaseException as error:
            if not injection.happened:
                raise
            how = "interrupted" if isinstance(error, KeyboardInterrupt) else f"ended by {error!r}"
            self._add(step, injection, f"the chaos run was {how}")
            if not isinstance(error, LabError):
                raise
        else:
            if injection.missed is not None and injection.undone:
                raise injection.missed
            self._add(step, injection)
            injection.check_bug()

    def _add(self, step: Step, injection: Injection, *problems: str) -> None:
        problems = (*injection.problems, *problems)
        self._done.append(StepResult(step, injection.target, record=injection.record(), problems=problems))

    def _refuse_the_last(self, fault: Fault, aim: Aim) -> None:
        """Refuse a fault that would take the last healthy worker unasked. Raises RefusedError."""
        if self._plan.below_one or fault.kind.scope is not Scope.NODE:
            return
        services = self._lab.status().services
        others = [s for s in services if is_worker(s.service) and s.service != aim.target]
        if not any(s.state is State.HEALTHY for s in others):
            raise RefusedError(f"{aim.target} is the last healthy worker", "--below-one-worker allows that")

    def _refuse_the_end(self) -> None:
        left = self._waiting.left()
        if left is not None and left < END_SECONDS:
            raise RefusedError(f"the job ends in about {left:.0f} s", "submit a longer job")

    # The result

    def _sum_up(self, began: float) -> ChaosResult:
        watch, stored = self._watch, self._stored
        faults = sum(done.record is not None for done in self._done)
        self._tell("judging", plural(faults, "fault"))
        steps = judge_steps(watch, self._done, stored, self._problem)
        return ChaosResult(
            job=watch.submission_id,
            status=watch.job.status if watch.job else "",
            plan=self._plan,
            began=began,
            ended=self._clock(),
            steps=tuple(steps),
            checkpoints=sum(len(run.checkpoints) for run in watch.history.runs),
            lost=tuple(lost_checkpoints(watch, self._done, stored, self._problem)),
        )

    def _compared(self, result: ChaosResult) -> ChaosResult:
        """The result with the control run, by which each fault is judged again.

        A control run that fails is a problem: the rest is kept all the same.
        """
        try:
            compared = run_control(self._lab, result.job, self._on_moment, clock=self._clock)
        except LabError as error:
            self._problem(f"there is no control run to compare with: {error.message}")
            return result
        except KeyboardInterrupt as error:
            return replace(result, interrupt=error)
        steps = judge_steps(self._watch, self._done, self._stored, self._problem, compared.history)
        return replace(result, control=compared.document(), steps=tuple(steps))

    def _keep(self, result: ChaosResult) -> None:
        key = f"{CHAOS_PREFIX}/{result.job}-{int(result.began)}.json"
        document = plain(replace(result, problems=tuple(self._problems)).document())
        try:
            self._lab.store.put(key, json.dumps(document, indent=1).encode())
        except StoreError as error:
            self._problem(f"the result could not be kept in the object store: {error.message}")

    def _problem(self, text: str) -> None:
        if text and text not in self._problems:
            self._problems.append(text)
            self._tell("problem", text)

    def _tell(self, key: str, text: str) -> None:
        self._on_moment(Moment(key, None, text))


def run_chaos(
    lab: Lab,
    plan: Plan,
    on_moment: OnMoment,
    *,
    job: str = "",
    control: bool = False,
    clock: Clock = WALL,
) -> ChaosResult:
    """Inject the plan's faults one after another while `job` trains (empty: the one that runs), to its end.

    Each is undone before the next comes, whatever happens. With `control` the job is then repeated
    undisturbed, and compared. After an interrupt what was done so far is judged, as far as it can be, and
    `interrupt` of the result is set. Raises before anything is done: NotFoundError, RefusedError,
    UnsupportedError, UsageError, LabDownError, WaitTimeoutError; later LabDownError alone.
    """
    check_plan(lab, plan)
    running = [candidate for candidate in lab.jobs.list() if not candidate.final]
    if not running and not job:
        raise RefusedError("no job is running, so there is nothing to disturb", f"start one: {SUBMIT}")
    live = live_job(lab, job, f"another one: {SUBMIT}")
    return Chaos(Watch(lab, live.submission_id, clock, outages(on_moment)), plan, on_moment).run(control)


def check_plan(lab: Lab, plan: Plan) -> None:
    """Refuse a plan with a fault that cannot be injected in this lab. Raises UnsupportedError, NotFoundError,
    RefusedError, UsageError, LabDownError."""
    drawn = (Step(0.0, kind, parameters=plan.parameters.get(kind, {})) for kind in plan.kinds)
    for step in plan.written or drawn:
        fault = find_fault(step.kind)
        target = check_target(lab.control, step.target, fault.kind)
        given = with_epoch(fault.kind, step.parameters)
        fault.refuse(Scene(lab.control, target, parameters=fault.kind.settle(given)))
