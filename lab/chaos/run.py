"""Runs a plan against a job: one fault at a time, each followed until training goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.chaos.plan import Plan, Step
from lab.chaos.result import ChaosResult, StepResult
from lab.errors import RefusedError, ServiceError, StoreError, UnsupportedError
from lab.faults import Fault, Scene, Scope, find_fault
from lab.faults.base import check_runtime
from lab.lab import Lab
from lab.recovery.control import run_control
from lab.recovery.injection import SETTLE_POLLS, Injection
from lab.recovery.proof import keep, prove
from lab.recovery.request import FaultRequest, Moment, OnMoment
from lab.recovery.trigger import Aim, check_target, take_aim
from lab.recovery.watch import POLL_SECONDS, Watch
from lab.topology import State, is_worker

if TYPE_CHECKING:
    from lab.ledger import Run
    from lab.receipt import FaultRecord

CHAOS_PREFIX = ".raylab/chaos"
"""Where in the bucket results are kept."""

STEADY_SECONDS = 180.0
"""How long a step waits for the training, and every service, to be well again before it is left out."""

END_SECONDS = 24 * 3600.0
"""Deadline for the job to end after the last fault."""

AHEAD_EPOCHS = 4
"""A fault that comes with an epoch comes so many after the last one that was reported."""


@dataclass
class _Done:
    """A step that was carried out, before it is judged: that is possible when the job has ended."""

    step: Step
    target: str
    record: FaultRecord | None = None
    problems: tuple[str, ...] = ()
    skipped: str = ""


class Chaos:
    """One chaos run."""

    def __init__(
        self,
        lab: Lab,
        plan: Plan,
        job: str,
        on_moment: OnMoment,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._lab, self._plan, self._on_moment = lab, plan, on_moment
        self._clock, self._sleep = clock, sleep
        self._watch = Watch(lab, job, clock)
        self._done: list[_Done] = []

    def run(self, control: bool) -> ChaosResult:
        """Carry the plan out, wait for the job's end, judge each fault, and sum up."""
        watch = self._watch
        self._tell("waiting", f"waiting for job {watch.submission_id} to train")
        self._wait_steady(0.0, STEADY_SECONDS)
        began = self._clock()
        for number, step in enumerate(self._plan.steps(), 1):
            if not self._wait_until(began + step.at):
                break
            done = self._step(number, step)
            if self._over():
                break
            self._done.append(done)
            if done.skipped:
                self._tell("skipped", f"{number}. {step.kind}: left out: {done.skipped}")
        self._wait_for_the_end()
        result = self._sum_up(began)
        if control:
            compared = run_control(
                self._lab, watch.submission_id, self._on_moment, clock=self._clock, sleep=self._sleep
            )
            result = replace(result, control=compared.to_json())
        self._keep(result)
        return result

    # One step

    def _step(self, number: int, step: Step) -> _Done:
        """Inject the fault when the lab is well, and wait until training goes on."""
        try:
            after = self._done[-1].record.at if self._done and self._done[-1].record else 0.0
            if not self._wait_steady(after, STEADY_SECONDS):
                return _Done(step, step.target, skipped="training, or a service, was not well in time")
            return self._inject(number, step)
        except (RefusedError, UnsupportedError, ServiceError) as error:
            return _Done(step, step.target, skipped=error.message)

    def _inject(self, number: int, step: Step) -> _Done:
        fault = find_fault(step.kind)
        aim = self._take_aim(fault, step)
        parameters = fault.kind.settle(self._given(fault, step))
        scene = Scene(self._lab.runtime, aim.target, self._watch.submission_id, parameters)
        fault.refuse(scene)
        self._refuse_the_last(fault, aim)
        self._watch.target = aim.target if is_worker(aim.target) else ""
        self._tell("step", f"{number}. {step.kind} {aim.target}")
        request = FaultRequest(aim.target, step.kind, self._watch.submission_id)
        injection = Injection(
            self._lab, fault, request, parameters, self._watch, aim, self._on_moment, self._clock, self._sleep
        )
        injection.run(to_the_end=False)
        return _Done(step, aim.target, injection.record(), injection.problems)

    def _take_aim(self, fault: Fault, step: Step) -> Aim:
        """What the step hits: the target it names, else the node of the rank that its share falls on."""
        target = check_target(self._lab, step.target, fault.kind)
        attempt = self._watch.live_attempt
        if not target and attempt is not None and attempt.nodes:
            ranks = sorted(attempt.nodes)
            node = attempt.nodes[ranks[min(int(step.share * len(ranks)), len(ranks) - 1)]]
            target = next((n.service for n in self._watch.nodes if n.node_id == node), "")
        aim = take_aim(self._watch, target, fault.kind)
        if aim is None:
            raise RefusedError("the job did not train at that moment", "a longer --every")
        return aim

    def _given(self, fault: Fault, step: Step) -> dict[str, float]:
        given = dict(step.parameters)
        if "epoch" not in given and any(p.name == "epoch" and p.required for p in fault.kind.parameters):
            last = self._watch.run.last if self._watch.run else None
            given["epoch"] = float(
                (last.progress if last and last.progress is not None else 0) + AHEAD_EPOCHS
            )
        return given

    def _refuse_the_last(self, fault: Fault, aim: Aim) -> None:
        """Raises RefusedError when the fault would take the last healthy worker, which nobody asked for."""
        if self._plan.below_one or fault.kind.scope is not Scope.NODE:
            return
        services = self._lab.status().services
        others = [s for s in services if is_worker(s.service) and s.service != aim.target]
        if not any(s.state is State.HEALTHY for s in others):
            raise RefusedError(
                f"{aim.target} is the last healthy worker", "--below-one-worker lets a fault take it"
            )

    # Waiting

    def _over(self) -> bool:
        job = self._watch.job
        return job is not None and job.final

    def _wait_until(self, at: float) -> bool:
        """Wait until then; False when the job ended before."""
        while self._clock() < at:
            self._watch.poll()
            if self._over():
                return False
            self._sleep(min(POLL_SECONDS, max(0.0, at - self._clock())))
        return True

    def _wait_steady(self, after: float, seconds: float) -> bool:
        """Wait until the job has reported progress after `after` and every service is well; False in vain."""
        deadline = self._clock() + seconds
        while self._clock() < deadline:
            self._watch.poll()
            job = self._watch.job
            if job is not None and job.final:
                raise RefusedError(
                    f"job {job.submission_id} has ended ({job.status})",
                    "submit a longer one: labctl submit digits -p epochs=300 -p max-failures=-1 --detach",
                )
            attempt = self._watch.live_attempt
            reports = attempt.reports if attempt else ()
            run = self._watch.run
            trains = bool(run and run.checkpoints and reports and reports[-1].at > after)
            if trains and not self._watch.problems and self._lab.status().healthy:
                return True
            self._sleep(POLL_SECONDS)
        return False

    def _wait_for_the_end(self) -> None:
        self._tell("to the end", f"waiting for job {self._watch.submission_id} to end")
        deadline = self._clock() + END_SECONDS
        settle = SETTLE_POLLS
        while self._clock() < deadline and settle:
            self._watch.poll()
            settle -= self._over()
            self._sleep(POLL_SECONDS)

    # The result

    def _sum_up(self, began: float) -> ChaosResult:
        watch = self._watch
        records = [done.record for done in self._done if done.record is not None]
        steps = []
        for done in self._done:
            if done.record is None:
                steps.append(StepResult(done.step, done.target, skipped=done.skipped))
                continue
            others = [record for record in records if record is not done.record]
            receipt = prove(self._lab, watch, done.record, done.problems, others)
            problem = keep(self._lab, receipt)
            if problem:
                self._tell("problem", problem)
            steps.append(
                StepResult(done.step, done.target, receipt, downtime=downtime(watch.run, done.record.at))
            )
        job = watch.job
        return ChaosResult(
            job=watch.submission_id,
            status=job.status if job else "",
            plan=self._plan,
            began=began,
            ended=self._clock(),
            steps=tuple(steps),
            checkpoints=sum(len(run.checkpoints) for run in watch.history.runs),
            lost=self._lost(),
        )

    def _lost(self) -> tuple[str, ...]:
        """Committed checkpoints that are changed, or gone although an older one is kept."""
        from lab.checkpoints import stored_manifest

        lost = []
        for run in self._watch.history.runs:
            kept_one = False
            for checkpoint in run.checkpoints:
                files = stored_manifest(self._lab.store, checkpoint.uri)
                wrong = bool(files) and checkpoint.files is not None and not checkpoint.accepts(files)
                if wrong or (not files and kept_one):
                    lost.append(checkpoint.uri)
                kept_one = kept_one or bool(files)
            if run.checkpoints and not kept_one:
                lost.append(run.checkpoints[-1].uri)
        return tuple(lost)

    def _keep(self, result: ChaosResult) -> None:
        key = f"{CHAOS_PREFIX}/{result.job}-{int(result.began)}.json"
        try:
            self._lab.store.put(key, json.dumps(result.to_json(), indent=1).encode())
        except StoreError as error:
            self._tell("problem", f"the result could not be kept in the object store: {error.message}")

    def _tell(self, key: str, text: str) -> None:
        self._on_moment(Moment(key, None, text))


def downtime(run: Run | None, at: float) -> float | None:
    """Seconds from `at` to the next report of the run's rank 0; None where none came."""
    reports = [report.at for attempt in (run.attempts if run else ()) for report in attempt.reports]
    later = [report for report in reports if report > at]
    return min(later) - at if later else None


def run_chaos(
    lab: Lab,
    plan: Plan,
    on_moment: OnMoment,
    *,
    job: str = "",
    control: bool = False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> ChaosResult:
    """Inject the plan's faults one after another while `job` trains (empty: the one that runs), to its end.

    Each is undone before the next comes, whatever happens. With `control` the job is then repeated
    undisturbed, and compared. Raises NotFoundError, RefusedError, LabDownError, and what a revert raises that
    is no finding.
    """
    found = lab.jobs.get(job) if job else lab.running_job()
    if found.final:
        raise RefusedError(f"job {found.submission_id} has ended ({found.status})", "submit another one")
    for kind in dict.fromkeys((*plan.kinds, *(step.kind for step in plan.written))):
        check_runtime(find_fault(kind).kind, lab.runtime)
    return Chaos(lab, plan, found.submission_id, on_moment, clock, sleep).run(control)
