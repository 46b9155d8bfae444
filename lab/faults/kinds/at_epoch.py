"""Faults that a rank does to itself when it comes to an epoch."""

from __future__ import annotations

from dataclasses import replace

from lab.cluster.checkpoints import JobLedger
from lab.errors import RefusedError
from lab.evidence.ledger import EPOCH_KEYS, Run, epochs_of, progress_in
from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits, rank_on_target
from lab.faults.kinds._probe import tell, tell_if_up
from lab.faults.kinds.rank import RANK

EPOCH = Parameter(
    "epoch", "epoch", "at which epoch, as the script counts them", low=1, high=1e6, required=True
)


class ArmedFault(Fault):
    """The rank is told by `inject`, and acts when it gets there; a rank that was not told does nothing."""

    word: str
    """The probe's name of the fault."""
    before: int
    """Number of epochs before the one named by which the rank has to know."""
    fires = True
    patience = 120.0

    def refuse(self, scene: Scene) -> None:
        """Raise RefusedError also when the epoch has passed, or is beyond the job's plan."""
        super().refuse(scene)
        if scene.store is None:
            return
        runs = JobLedger(scene.store, scene.job).poll().runs
        if not runs:
            return
        epoch, run = scene.parameters["epoch"], _run_of(scene, runs)
        reported = epochs_of(run)
        counts = reported is not None and reported.key == run.progress_key
        in_epochs = counts or run.progress_key is None or run.progress_key in EPOCH_KEYS
        final = reported.final if reported else run.plan.epochs if run.plan else None
        if in_epochs and final is not None and epoch > final:
            raise RefusedError(
                f"{self.kind.name}: epoch {epoch:g} never comes, job {scene.job} ends with {final}",
                "name an earlier one: -p epoch=N",
            )
        reached = progress_in(run.last.metrics) if run.last is not None else None
        if run.last is not None and reached is None:
            raise RefusedError(
                f"{self.kind.name}: job {scene.job} reports no epoch, so none can be waited for",
                'let its script report one: ray.train.report({"epoch": ...})',
            )
        if reached is not None and reached > epoch - 1 - self.before:
            raise RefusedError(
                f"{self.kind.name}: too late for epoch {epoch:g}, job {scene.job} has reported {reached}",
                f"name a later one: -p epoch={reached + 5:g}",
            )

    def inject(self, scene: Scene) -> None:
        """Order the fault for the rank's epoch. Raises RefusedError when that has passed meanwhile."""
        self.refuse(scene)
        pid = rank_on_target(scene).pid
        scene.note(pid=pid)
        tell(scene, "armed", "set", pid, self.word, int(scene.parameters["epoch"]))

    def revert(self, scene: Scene) -> None:
        """Take the order back: a rank that has not got there forgets it."""
        if "pid" in scene.memo:
            tell_if_up(scene, "armed", "clear", scene.memo["pid"])


def _run_of(scene: Scene, runs: tuple[Run, ...]) -> Run:
    """Return the run that the scene's ranks belong to: a job can have several."""
    pids = {rank.pid for rank in scene.ranks}
    on_it = [run for run in runs if run.attempts and pids & set(run.attempts[-1].pids.values())]
    return (on_it or list(runs))[-1]


class ExceptionAtEpoch(ArmedFault):
    """A RuntimeError in the user's code, where the epoch would have been reported."""

    kind = FaultKind(
        name="exception-at-epoch",
        summary="a rank's training function raises a RuntimeError instead of reporting an epoch",
        scope=Scope.RANK,
        parameters=(EPOCH, RANK),
        revert="a rank that has not reached that epoch is told to forget it",
        expected=Expected.RANK_LOST,
        traits=Traits("had an exception in its training function"),
    )
    word = "exception"
    before = 0


class NanAtEpoch(ArmedFault):
    """A parameter of the model is filled with NaN before the epoch; the script has to notice."""

    kind = replace(
        ExceptionAtEpoch.kind,
        name="nan-at-epoch",
        summary="a rank's model gets NaN (not a number) as weights before an epoch; the script has to notice",
        parameters=(replace(EPOCH, low=2), RANK),
        traits=Traits(
            "got NaN as weights",
            too_short="the script trained on with NaN in its weights: nothing in it looks for that",
        ),
    )
    word = "nan"
    before = 1
