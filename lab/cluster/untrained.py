"""Jobs that trained nothing, because the run that they go on with had ended: Ray calls them successful."""

from __future__ import annotations

from collections.abc import Callable

from lab.cluster.checkpoints import list_checkpoints
from lab.cluster.explain import Cause, Explanation
from lab.errors import LabError
from lab.evidence.ledger import History, Run
from lab.store import Store

RUN_ENDED = Cause(
    "run-ended",
    "trained nothing: its run had ended",
    "give RunConfig another name, or train for more epochs",
)


def why(history: Callable[[], History], store: Callable[[], Store]) -> Explanation | None:
    """The reason why a job that succeeded trained nothing; None where it trained, or that is not known.

    Every run of it ended without an error, and was given a checkpoint, and not one rank made a step or
    reported. With the ledger or the store out of reach it is not known.
    """
    try:
        return _trained_nothing(history(), store())
    except LabError:
        return None


def _trained_nothing(history: History, store: Store) -> Explanation | None:
    if not history.runs or not all(map(_idle, history.runs)):
        return None
    run = history.runs[-1]
    uris = {request.uri for attempt in run.attempts for request in attempt.requests}
    last = next((c for c in reversed(list_checkpoints(store)) if c.uri in uris), None)
    epoch = f" at epoch {last.epoch:g}" if last and last.epoch is not None else ""
    job = f" (job {last.job})" if last and last.job else ""
    return Explanation(RUN_ENDED, "", f"trained nothing: the run {run.name} had ended{epoch}{job}")


def _idle(run: Run) -> bool:
    """Tell if a run ended as it began."""
    idle = all(not (a.by_rank or a.taken_up or a.begun) for a in run.attempts)
    given = any(request.uri for attempt in run.attempts for request in attempt.requests)
    whole = run.finished_at is not None and not run.error and not run.missing
    return idle and given and whole and not run.checkpoints and not run.given
