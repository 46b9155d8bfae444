"""Climbs the ladder: the same training and the same fault on every rung, in a lab of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from lab.cluster.recipes import find_recipe
from lab.errors import JobError, LabError, RefusedError, SetupError, UnsupportedError
from lab.flows.ladder.measure import measure
from lab.flows.ladder.result import Attempted, Ladder
from lab.flows.ladder.rungs import Rung, rungs_named
from lab.flows.recovery import FaultRequest, OnMoment, ended, inject
from lab.host.clock import WALL, Clock, poll
from lab.host.gpus import GpuRequest, plan
from lab.lab import Lab
from lab.runtime.base import OnProgress
from lab.topology import LabSpec, Vendor

RECIPE = "digits"
RANKS = 2
EPOCHS = 160
"""Length of every training: the same steps on every rung, enough of them to be whole again before the end."""

SAVE_EVERY = 20
"""Epochs from one report and checkpoint to the next: stock Ray's controller takes up one report every 2 s."""

CHECKPOINTS = 2
"""Number of checkpoints after which the rank is lost."""

EACH_STEP = "RAYLAB_EACH_STEP"
"""Environment variable of a job that lets the ledger have every step (raylab_ledger.survivors)."""

START_SECONDS = 600.0
"""Deadline for a training to come so far."""

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
        for attempted in _all(lab, rungs, request, on_progress, on_moment, say, clock):
            attempts.append(attempted)
    except KeyboardInterrupt as error:
        interrupt = error
    return Ladder(request.fault, lab.view.kind, rungs, tuple(attempts), interrupt)


def _all(
    lab: Lab,
    rungs: tuple[Rung, ...],
    request: LadderRequest,
    on_progress: OnProgress,
    on_moment: OnMoment,
    say: Say,
    clock: Clock,
) -> Iterator[Attempted]:
    """Climb every rung as often as asked, those with stock Ray in a lab of their own."""
    for run in range(1, request.runs + 1):
        for stock_ray, group in groupby(rungs, lambda rung: rung.stock_ray):
            left = list(group)
            try:
                with own_lab(lab, stock_ray, on_progress):
                    while left:
                        rung = left[0]
                        say(f"{rung.name}: {rung.summary} (run {run} of {request.runs})")
                        yield _attempt(lab, rung, run, request.fault, on_moment, clock)
                        left.pop(0)
                        _make_whole(lab, stock_ray, on_progress, clock)
            except LabError as error:
                for rung in left:
                    yield Attempted(rung, run, reason=f"the lab: {error.message}")


@contextlib.contextmanager
def own_lab(lab: Lab, stock_ray: bool, on_progress: OnProgress) -> Iterator[None]:
    """Start the lab, and take it down with its objects at the end. Raises what Lab.up raises."""
    try:
        lab.up_to_train(spec(lab.name, stock_ray), on_progress)
        yield
    finally:
        lab.down(volumes=True, on_progress=on_progress)


def spec(name: str, stock_ray: bool) -> LabSpec:
    """Return the settings of the ladder's lab: a node for each rank, with a simulated GPU."""
    gpu = plan(GpuRequest(Vendor.SIMULATED.value), RANKS)
    return LabSpec(name, gpu, workers=RANKS, stock_ray=stock_ray)


def _make_whole(lab: Lab, stock_ray: bool, on_progress: OnProgress, clock: Clock) -> None:
    """Repair what a rung has left, and wait until every node is in the cluster."""
    lab.up_to_train(spec(lab.name, stock_ray), on_progress)
    poll(
        lambda: True if sum(node.alive for node in lab.api.nodes()) > RANKS else None,
        timeout=WHOLE_SECONDS, waited_for=f"{RANKS + 1} nodes in the lab {lab.name}", clock=clock,
    )  # fmt: skip


def _attempt(lab: Lab, rung: Rung, run: int, fault: str, on_moment: OnMoment, clock: Clock) -> Attempted:
    """Train on this rung, lose the last rank, and measure."""
    made = Attempted(rung, run)
    try:
        job = submit(lab, rung)
        made = replace(made, job=job)
        try:
            target = wait_for_last_rank(lab, job, clock)
            request = FaultRequest(target, fault, job)
            receipt = inject(lab, request, on_moment, clock=clock).receipt
        finally:
            with contextlib.suppress(LabError):
                if not lab.jobs.get(job).final:
                    lab.jobs.stop(job)
        if receipt is None:
            raise JobError(f"job {job}: there is no receipt")
        made = replace(made, verdict=receipt.verdict.value)
        lab.history(job)
        made = replace(made, measured=measure(lab.ledger(job).events, receipt.fault))
        return made if receipt.survived else replace(made, reason=receipt.reason)
    except (UnsupportedError, SetupError) as error:
        return replace(made, reason=error.message, impossible=True)
    except LabError as error:
        return replace(made, reason=error.message)


def submit(lab: Lab, rung: Rung) -> str:
    """Submit the training of a rung. Raises what Lab.submit_recipe raises."""
    settings = {"workers": str(RANKS), "epochs": str(EPOCHS), "save-every": str(SAVE_EVERY), **rung.settings}
    return submit_counted(lab, RECIPE, rung.way, settings, rung.environment)


def submit_counted(
    lab: Lab, recipe: str, way: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> str:
    """Submit a recipe, `way` as --fault-tolerance has it, whose ledger has every step. Returns the job.

    Raises what Lab.submit_recipe raises.
    """
    chosen = find_recipe(recipe).tolerating(way)
    lab.runtime.provide(chosen.packages)
    made = chosen.submission(settings)
    counted = {"env_vars": {EACH_STEP: "1", **environment}}
    return lab.submit(replace(made, runtime_env=counted)).submission_id


def wait_for_last_rank(lab: Lab, job: str, clock: Clock) -> str:
    """Return the service of the last rank, once all train and enough checkpoints are saved.

    Raises RefusedError for a job that has ended before, WaitTimeoutError.
    """

    def last_rank() -> str | None:
        known = lab.jobs.get(job)
        if known.final:
            raise ended(lab, known, f"labctl jobs logs {job}", "its rank could be lost")
        runs = lab.history(job).runs
        attempt = runs[-1].attempts[-1] if runs and runs[-1].attempts else None
        if attempt is None or len(attempt.nodes) < RANKS or len(runs[-1].checkpoints) < CHECKPOINTS:
            return None
        services = {node.node_id: node.service for node in lab.api.nodes()}
        return services.get(attempt.nodes[max(attempt.nodes)])

    return poll(
        last_rank, timeout=START_SECONDS, waited_for=f"{CHECKPOINTS} checkpoints of job {job}", clock=clock,
        hint=f"labctl jobs logs {job}",
    )  # fmt: skip
