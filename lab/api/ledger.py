"""Events of a ledger: each kind that the probe writes, with its fields. One event is one line of JSON.

lab/probe, which imports nothing of lab, writes them, and says when (raylab_ledger.train). They are read
leniently, since a process may die while it writes: a field that is missing or of the wrong type is as good as
none, an unknown one is passed over, and so are all of an unknown kind. Hence the type of a field names the
function that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, cast, get_type_hints

from lab.api.base import Plain
from lab.api.ledger_fields import (
    Amounts,
    Facts,
    Fingerprints,
    Flag,
    Integer,
    Kept,
    Milliseconds,
    Names,
    Ranks,
    Real,
    SavedFiles,
    Text,
    Values,
    Whole,
    Words,
    Workers,
)

LEDGER_SCHEMA = "ledger/1"
"""Version of the lines; one that names another is skipped."""


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What an event says beside its header. Of an unknown kind, and of some others, there is nothing more."""

    pid: Integer
    """Process that wrote it, on its node."""


@dataclass(frozen=True, kw_only=True)
class _WithWorkers(Payload):
    workers: Workers


@dataclass(frozen=True, kw_only=True)
class WithMetrics(Payload):
    """An event that says how far the script is."""

    metrics: Values
    """Those of the script's last report."""


@dataclass(frozen=True, kw_only=True)
class TakenUp(WithMetrics):
    """An event at which an attempt may be over."""

    reports: Whole
    """Number of reports, of all ranks together, that Ray Train had taken up."""


# Of the controller


@dataclass(frozen=True, kw_only=True)
class RunStarted(Payload):
    """The plan of a run."""

    storage_path: Text
    num_workers: Ranks
    replica_groups: Flag
    """Each rank is replaced alone (torchft)."""
    resources_per_worker: Amounts
    max_failures: Integer
    num_to_keep: Kept = None
    """Number of checkpoints that are kept; None where it is not said."""
    checkpoint_score_attribute: Text
    config: Values
    """`train_loop_config` of the script."""
    environment: Facts
    """Versions of packages, and the size of the machine."""
    patches: Names
    """The lab's patches of Ray."""


@dataclass(frozen=True, kw_only=True)
class AttemptScheduled(Payload):
    """A new attempt is about to start."""

    num_workers: Integer


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(_WithWorkers):
    """Every rank of the attempt has its process."""


@dataclass(frozen=True, kw_only=True)
class TrainingStarted(Payload):
    """The training function was started on every rank."""


@dataclass(frozen=True, kw_only=True)
class FailureDetected(TakenUp):
    """Ray Train noticed a failure."""

    decision: Text


@dataclass(frozen=True, kw_only=True)
class Resized(Payload):
    """An elastic run ends this attempt, to go on with another number of ranks."""

    ranks: Whole
    to: Whole


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(TakenUp):
    """The ranks were shut down, or aborted."""

    aborted: Flag


@dataclass(frozen=True, kw_only=True)
class CheckpointCommitted(WithMetrics):
    """Ray Train registered a checkpoint: from here on it would resume from it."""

    uri: Text


@dataclass(frozen=True, kw_only=True)
class CheckpointRefused(Payload):
    """A damaged checkpoint was passed over."""

    uri: Text
    reason: Text
    instead: Text
    """URI of the one that was taken; None if none was left."""


@dataclass(frozen=True, kw_only=True)
class RunFinished(Payload):
    """The end of a run."""

    error: Words
    """Empty if there was none."""


@dataclass(frozen=True, kw_only=True)
class RankGivenUp(_WithWorkers):
    """A lost rank is to be replaced; the others train on."""


@dataclass(frozen=True, kw_only=True)
class RankReplaced(_WithWorkers):
    """The new process of such a rank is there."""


# Of a rank


@dataclass(frozen=True, kw_only=True)
class RankReady(Payload):
    """The process of a rank belongs to Ray Train."""

    launched_at: Real
    """Time at which Ray began to start it, in seconds since the epoch."""
    service: Text
    """The lab's service, or the pod, that it runs in."""


@dataclass(frozen=True, kw_only=True)
class FunctionStarted(Payload):
    """The training function begins; its imports are done."""


@dataclass(frozen=True, kw_only=True)
class CheckpointGiven(Payload):
    """The script asked for a checkpoint."""

    uri: Text
    """The one that it was given."""


@dataclass(frozen=True, kw_only=True)
class CheckpointLoaded(Payload):
    """Files were read from a checkpoint."""

    uri: Text
    files: SavedFiles
    tensors: Fingerprints


@dataclass(frozen=True, kw_only=True)
class FirstWeights(Payload):
    """Parameters right before the first step of an optimizer."""

    tensors: Fingerprints
    why: Text
    """Reason for which they were not looked at."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(WithMetrics):
    """Files were uploaded, and what they were before."""

    uri: Text
    files: SavedFiles


@dataclass(frozen=True, kw_only=True)
class Reported(WithMetrics):
    """`ray.train.report` returned."""

    checkpoint: Text
    """URI of the checkpoint that came with it."""
    optimizer_steps: Whole
    """Steps in this process so far."""


@dataclass(frozen=True, kw_only=True)
class StepsTaken(Payload):
    """Consecutive steps that were committed."""

    first: Whole
    """Number of the first."""
    began: Real
    """Its time, in seconds since the epoch."""
    ms: Milliseconds
    """Milliseconds from each to the next."""
    ranks: Whole
    """Number of ranks that took part."""


@dataclass(frozen=True, kw_only=True)
class StepDiscarded(Payload):
    """A step that did not count: a rank was lost on the way."""

    step: Whole
    why: Text


@dataclass(frozen=True, kw_only=True)
class Healed(Payload):
    """The rank was given the state of a neighbour."""

    step: Whole
    source: Words
    """Name of the neighbour, such as `rank0`."""


@dataclass(frozen=True, kw_only=True)
class StateHashed(Payload):
    """Weights and optimizer after a step."""

    step: Whole
    sha256: Text


@dataclass(frozen=True, kw_only=True)
class FitEnded(Payload):
    """A fit of Lightning, Keras or XGBoost returned."""

    by: Annotated[str, str]
    early: Flag
    """It stopped before its planned end."""


@dataclass(frozen=True, kw_only=True)
class _Fault(Payload):
    kind: Text
    epoch: Real


@dataclass(frozen=True, kw_only=True)
class FaultArmed(_Fault):
    """The rank is to fail on purpose at an epoch."""


@dataclass(frozen=True, kw_only=True)
class FaultFired(_Fault):
    """It did so, or could not."""

    parameter: Text
    """The one that became NaN."""
    problem: Text


# Of who keeps states in memory


@dataclass(frozen=True, kw_only=True)
class StateGiven(Payload):
    """A state from memory was given to a training."""

    step: Whole
    sha256: Text
    tensors: Fingerprints
    source: Text
    """The node that kept it."""


KINDS: Mapping[str, type[Payload]] = {
    "run_started": RunStarted,
    "attempt_scheduled": AttemptScheduled,
    "attempt_started": AttemptStarted,
    "training_started": TrainingStarted,
    "failure_detected": FailureDetected,
    "resized": Resized,
    "attempt_ended": AttemptEnded,
    "checkpoint_committed": CheckpointCommitted,
    "checkpoint_refused": CheckpointRefused,
    "run_finished": RunFinished,
    "rank_given_up": RankGivenUp,
    "rank_replaced": RankReplaced,
    "rank_ready": RankReady,
    "function_started": FunctionStarted,
    "get_checkpoint": CheckpointGiven,
    "checkpoint_loaded": CheckpointLoaded,
    "weights": FirstWeights,
    "checkpoint_saved": CheckpointSaved,
    "report": Reported,
    "steps": StepsTaken,
    "step_discarded": StepDiscarded,
    "healed": Healed,
    "state": StateHashed,
    "fit_ended": FitEnded,
    "fault_armed": FaultArmed,
    "fault_fired": FaultFired,
    "state_given": StateGiven,
}
"""`event` of a line -> what such an event says."""


def payload_of(event: str, values: Mapping[str, object]) -> Payload:
    """What the fields of an event of this kind say."""
    kind, layout = _layout(event if event in KINDS else "")
    read = {name: of(values.get(name)) for name, of, needed in layout if needed or name in values}
    return cast("Payload", kind(**read))


@cache
def _layout(event: str) -> tuple[Plain, tuple[tuple[str, Callable[[object], object], bool], ...]]:
    """The class of a kind, and of each field its name, what reads it, and whether it has no default."""
    kind = KINDS.get(event, Payload)
    hints = get_type_hints(kind, include_extras=True)
    return kind, tuple(
        (field.name, hints[field.name].__metadata__[0], field.default is MISSING) for field in fields(kind)
    )
