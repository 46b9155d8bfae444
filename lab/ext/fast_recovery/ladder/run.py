"""Climbs the ladder: the same training and the same fault on every rung, in a lab of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lab.cluster.recipes import find_recipe
from lab.errors import JobError, LabError, RefusedError, SetupError, UnsupportedError
from lab.ext.fast_recovery.ladder.measure import measure
from lab.ext.fast_recovery.ladder.plan import (
    BOOT_SECONDS,
    Climb,
    Pace,
    about,
    in_order,
    labs,
    seconds_of,
    seconds_with_labs,
)
from lab.ext.fast_recovery.ladder.result import Attempted, Ladder
from lab.ext.fast_recovery.ladder.rungs import Rung, rungs_named
from lab.ext.fast_recovery.ladder.training import RANKS, RECIPE, submit, wait_for_last_rank
from lab.flows.recovery import FaultRequest, OnMoment, inject
from lab.host.clock import WALL, Clock, poll, settle
from lab.host.gpus import GpuRequest, plan
from lab.lab import Lab
from lab.runtime.base import OnProgress
from lab.services import HEAD
from lab.topology import LabSpec, Vendor

FORKS_READY = ("sh", "-c", 'cd "$RAYLAB_FORK_FOLDER" && test -S node.sock || exit 0; test -S train.sock')
NOT_YET = 1
"""Exit code of this command on a node whose fork server runs, but has not imported what trainings need."""

FORKS_SECONDS = 60.0
"""Deadline for it. It takes 8 s on two cores with much other work."""

WHOLE_SECONDS = 300.0
"""Deadline for the lab to be whole before the next rung."""

SUFFIX = "-ladder"
LONGEST_NAME = 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class LadderRequest:
    """The rungs to climb, by name (none: all), the fault, and how often."""

    rungs: tuple[str, ...] = ()
    fault: str = "rank-kill"
    runs: int = 1


def lab_of(name: str) -> str:
    """Return the name of the ladder's own lab, beside a person's lab of this name."""
    return name[: LONGEST_NAME - len(SUFFIX)] + SUFFIX


def climb(
    lab: Lab,
    request: LadderRequest,
    on_progress: OnProgress,
    on_moment: OnMoment,
    say: Say,
    *,
    clock: Clock = WALL,
) -> Ladder:
    """Climb the ladder in `lab`, which is the ladder's own: it is started, and taken down whatever happens.

    A rung that cannot be measured is part of the result, with its reason. After an interrupt the result has
    what was measured until then, and `interrupt` is set. Raises UsageError for a rung that does not exist,
    RefusedError when the lab is up already, UnsupportedError where none can be started.
    """
    rungs = rungs_named(request.rungs)
    if lab.runtime.status().up:
        raise RefusedError(
            f"the lab {lab.name} is up: another ladder runs, or one was killed",
            f"wait for it, or: labctl down --lab {lab.name}",
        )
    attempts: list[Attempted] = []
    interrupt: KeyboardInterrupt | None = None
    try:
        for attempted in _Ascent(lab, request, on_progress, on_moment, say, clock).all(rungs):
            attempts.append(attempted)
    except KeyboardInterrupt as error:
        interrupt = error
    return Ladder(request.fault, lab.view.kind, rungs, tuple(attempts), interrupt)


class _Ascent:
    """One climb of the ladder, lab by lab and rung by rung."""

    def __init__(
        self,
        lab: Lab,
        request: LadderRequest,
        on_progress: OnProgress,
        on_moment: OnMoment,
        say: Say,
        clock: Clock,
    ) -> None:
        self._lab, self._request, self._clock = lab, request, clock
        self._on_progress, self._on_moment, self._say = on_progress, on_moment, say
        self._pace, self._climbed, self._count = Pace(), 0, 0

    def all(self, rungs: tuple[Rung, ...]) -> Iterator[Attempted]:
        """Climb every rung as often as asked, one after the other; neighbours share a lab where they can.

        After a lab that fails the next run begins with another one.
        """
        reasons = lacking(self._lab, rungs)
        for rung in rungs:
            if rung.name in reasons:
                for run in range(1, self._request.runs + 1):
                    yield Attempted(rung, run, reason=reasons[rung.name], impossible=True)
        climbs = in_order([rung for rung in rungs if rung.name not in reasons], self._request.runs)
        self._count = len(climbs)
        todo = list(labs(climbs))
        while todo:
            left = list(todo[0])
            try:
                yield from self._in_one_lab(left, todo[1:])
            except LabError as error:
                run = left[0].run if left else 0
                for climb in [climb for climb in left if climb.run == run]:
                    self._climbed += 1
                    yield Attempted(climb.rung, run, reason=f"the lab: {error.message}")
                    left.remove(climb)
            todo = [tuple(left), *todo[1:]] if left else todo[1:]

    def _in_one_lab(self, left: list[Climb], later: Sequence[tuple[Climb, ...]]) -> Iterator[Attempted]:
        """Climb all of `left` in a lab of their own; those that are done are taken out of it.

        `later` climbs are for other labs. Raises what fails of the lab.
        """
        stock_ray = left[0].rung.stock_ray
        kind = "of stock Ray" if stock_ray else "as `up` starts it"
        self._say(f"a lab {kind} ({self._left((), [left, *later])})")
        begin = self._clock()
        with own_lab(self._lab, stock_ray, self._on_progress):
            if not stock_ray:
                await_forks(self._lab, self._clock)
            self._pace.took(BOOT_SECONDS[stock_ray], self._clock() - begin)
            while left:
                climb = left[0]
                self._climbed += 1
                number = f"{self._climbed} of {self._count}, " if self._count > 1 else ""
                run = f", run {climb.run}" if self._request.runs > 1 else ""
                what = f"{number}{climb.rung.name}{run}: {climb.rung.summary}"
                self._say(f"{what} ({self._left(left, later)})")
                begin = self._clock()
                attempted = _attempt(
                    self._lab, climb.rung, climb.run, self._request.fault, self._on_moment, self._clock
                )
                if attempted.measured:
                    planned = seconds_of([climb], self._request.fault)
                    self._pace.took(planned, self._clock() - begin)
                yield attempted
                left.pop(0)
                if left:
                    _make_whole(self._lab, stock_ray, self._on_progress, self._clock)

    def _left(self, climbs: Sequence[Climb], later: Sequence[Sequence[Climb]]) -> str:
        """Return how long these climbs take in the lab that is up, and `later` ones with theirs, in words."""
        fault = self._request.fault
        return about(self._pace.left(seconds_of(climbs, fault) + seconds_with_labs(later, fault)))


def lacking(lab: Lab, rungs: Sequence[Rung]) -> dict[str, str]:
    """Install what the trainings of these rungs need, and return the rungs that this machine has nothing for.

    Each with the reason. Installed while a lab is up, its fork server would have to begin anew.
    """
    reasons = {}
    for rung in rungs:
        try:
            lab.runtime.provide(find_recipe(RECIPE).tolerating(rung.way).packages)
        except (UnsupportedError, SetupError) as error:
            reasons[rung.name] = error.message
    return reasons


@contextlib.contextmanager
def own_lab(lab: Lab, stock_ray: bool, on_progress: OnProgress) -> Iterator[None]:
    """Start the lab, and take it down with its objects at the end. Raises what Lab.up raises."""
    try:
        lab.up_to_train(spec(lab.name, stock_ray), on_progress)
        yield
    finally:
        lab.down(volumes=True, on_progress=on_progress)


def await_forks(lab: Lab, clock: Clock) -> None:
    """Wait until the fork servers of all nodes have imported what trainings need, or for FORKS_SECONDS.

    They do so at the lowest priority: a training that began at once would keep them from it, and the first
    rung of the lab would be measured without them.
    """
    waiting = {HEAD, *lab.runtime.spec().worker_services}

    def look() -> bool:
        for service in sorted(waiting):
            if lab.runtime.execute(service, FORKS_READY).exit_code != NOT_YET:
                waiting.discard(service)
        return not waiting

    settle(look, bool, timeout=FORKS_SECONDS, clock=clock)


def spec(name: str, stock_ray: bool) -> LabSpec:
    """Return the settings of the ladder's lab: a node for each rank, with a simulated GPU."""
    gpu = plan(GpuRequest(Vendor.SIMULATED.value), RANKS)
    return LabSpec(name, gpu, workers=RANKS, stock_ray=stock_ray)


def _make_whole(lab: Lab, stock_ray: bool, on_progress: OnProgress, clock: Clock) -> None:
    """Repair what a rung has left, and wait until every node is in the cluster and forks."""
    lab.up_to_train(spec(lab.name, stock_ray), on_progress)
    poll(
        lambda: True if sum(node.alive for node in lab.api.nodes()) > RANKS else None,
        timeout=WHOLE_SECONDS, waited_for=f"{RANKS + 1} nodes in the lab {lab.name}", clock=clock,
    )  # fmt: skip
    if not stock_ray:
        await_forks(lab, clock)


def _attempt(lab: Lab, rung: Rung, run: int, fault: str, on_moment: OnMoment, clock: Clock) -> Attempted:
    """Train on this rung, lose the last rank, and measure."""
    made = Attempted(rung, run)
    try:
        job = submit(lab, rung, fault)
        made = replace(made, job=job)
        try:
            target = wait_for_last_rank(lab, job, clock)
            request = FaultRequest(target, fault, job)
            outcome = inject(lab, request, on_moment, clock=clock)
            receipt = outcome.receipt
        finally:
            with contextlib.suppress(LabError):
                if not lab.jobs.get(job).final:
                    lab.jobs.stop(job)
        if receipt is None:
            raise JobError(f"job {job}: there is no receipt")
        made = replace(made, verdict=receipt.verdict.value)
        lab.history(job)
        made = replace(made, measured=measure(lab.ledger(job).events, outcome.fault))
        return made if receipt.verdict.good else replace(made, reason=receipt.reason)
    except (UnsupportedError, SetupError) as error:
        return replace(made, reason=error.message, impossible=True)
    except LabError as error:
        return replace(made, reason=error.message)
