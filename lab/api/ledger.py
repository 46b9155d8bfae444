"""Events of a ledger: each kind that the probe writes, with its fields. One event is one line of JSON.

lab/probe, which imports nothing of lab, writes them, and says when (raylab_ledger.train). They are read
leniently, since a process may die while it writes: a field that is missing or of the wrong type is as good as
none, an unknown one is passed over, and so are all of an unknown kind. Hence the type of a field names the
function that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Annotated, cast, get_type_hints

from lab.api.ledger_fields import (
    Amounts,
    DigestOf,
    Digests,
    Facts,
    Flag,
    Integer,
    Integers,
    Kept,
    Milliseconds,
    Names,
    Ranks,
    RankState,
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


KINDS: dict[str, type[Payload]] = {}
"""`event` of a line -> what such an event says."""


class Payload:
    """What an event says beside its header. Of an unknown kind, and of some others, there is nothing more.

    The kinds are no dataclasses: to make thirty of them would take `labctl status` a fiftieth of a second.
    """

    pid: Integer
    """Process that wrote it, on its node."""

    def __init_subclass__(cls, event: str = "") -> None:
        if event:
            KINDS[event] = cls

    def __init__(self, values: Mapping[str, object]) -> None:
        """Read the fields of a line; what it lacks has its default, or what is read of null."""
        for name, read in _fields(cast("Hashable", type(self))):
            if name in values or not hasattr(self, name):
                setattr(self, name, read(values.get(name)))


class _WithWorkers(Payload):
    workers: Workers


class WithMetrics(Payload):
    """An event that says how far the script is."""

    metrics: Values
    """Those of the script's last report."""


class TakenUp(WithMetrics):
    """An event at which an attempt may be over."""

    reports: Whole
    """Number of reports, of all ranks together, that Ray Train had taken up."""


# Of the controller


class RunStarted(Payload, event="run_started"):
    """The plan of a run."""

    storage_path: Text
    num_workers: Ranks
    trial: Text
    """Id of the trial of Ray Tune that it is of."""
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


class AttemptScheduled(Payload, event="attempt_scheduled"):
    """A new attempt is about to start."""

    num_workers: Integer


class AttemptStarted(_WithWorkers, event="attempt_started"):
    """Every rank of the attempt has its process."""


class TrainingStarted(Payload, event="training_started"):
    """The training function was started on every rank."""


class FailureDetected(TakenUp, event="failure_detected"):
    """Ray Train noticed a failure."""

    decision: Text


class Resized(Payload, event="resized"):
    """An elastic run ends this attempt, to go on with another number of ranks."""

    ranks: Whole
    to: Whole


class AttemptEnded(TakenUp, event="attempt_ended"):
    """The ranks were shut down, or aborted."""

    aborted: Flag


class CheckpointCommitted(WithMetrics, event="checkpoint_committed"):
    """Ray Train registered a checkpoint: from here on it would resume from it."""

    uri: Text


class CheckpointRefused(Payload, event="checkpoint_refused"):
    """A damaged checkpoint was passed over."""

    uri: Text
    reason: Text
    instead: Text
    """URI of the one that was taken; None if none was left."""


class RunFinished(Payload, event="run_finished"):
    """The end of a run."""

    error: Words
    """Empty if there was none."""


class TrialStopped(Payload, event="trial_stopped"):
    """Ray Tune ends a trial: its scheduler has decided so, or it is over anyway."""

    trial: Text


class RankGivenUp(_WithWorkers, event="rank_given_up"):
    """A lost rank is to be replaced; the others train on."""


class RankReplaced(_WithWorkers, event="rank_replaced"):
    """The new process of such a rank is there."""


# Of a rank


class RankReady(Payload, event="rank_ready"):
    """The process of a rank belongs to Ray Train."""

    launched_at: Real
    """Time at which Ray began to start it, in seconds since the epoch."""


class FunctionStarted(Payload, event="function_started"):
    """The training function begins; its imports are done."""


class CheckpointGiven(Payload, event="get_checkpoint"):
    """The script asked for a checkpoint."""

    uri: Text
    """The one that it was given."""


class PreemptionNotice(Payload, event="preemption_notice"):
    """The script asked whether a node of its run is to be taken away, and was told that one is."""


class CheckpointLoaded(Payload, event="checkpoint_loaded"):
    """Files were read from a checkpoint, or could not be."""

    uri: Text
    files: SavedFiles
    tensors: Digests
    error: Text


class StateBegun(Payload, event="state_begun"):
    """The state before a step that does not begin with what the one before it has left."""

    state: RankState
    optimizer: Whole
    """The number of the one that makes the step."""
    steps: Whole
    """Steps with gradients in this process before it."""
    gradients: Flag
    """The step had gradients."""
    loaded: DigestOf
    """What was loaded into tensors that are something else by now."""
    rounds: Whole
    planned: Whole
    """Rounds of boosted trees so far, and those that the training is to add."""


class StateHanded(WithMetrics, event="state_handed"):
    """The state at a report, which may not have returned any more."""

    state: RankState
    report: Whole
    """Number of the report in its process, from 1."""
    handed: Flag
    """A checkpoint came with it."""
    changed: Integers
    """Optimizers whose parameters are not those that their last step has left, before the first report."""
    seconds: Real
    """Time that it took to look."""


class CheckpointSaved(WithMetrics, event="checkpoint_saved"):
    """Files were uploaded, and what they were before."""

    uri: Text
    files: SavedFiles
    report: Whole
    """Number of the report that they came with."""
    sizes: Integers
    """Of the tensors in them, in bytes."""


class Reported(WithMetrics, event="report"):
    """`ray.train.report` returned."""

    checkpoint: Text
    """URI of the checkpoint that came with it."""
    handed: Flag
    """A checkpoint came with it, be it still on its way."""
    report: Whole
    """Its number in this process, from 1."""
    optimizer_steps: Whole
    """Steps with gradients in this process so far."""
    empty_steps: Whole
    """Steps without."""
    rounds: Whole
    """Rounds of boosted trees so far, those that were loaded among them."""


class StepsTaken(Payload, event="steps"):
    """Consecutive steps that were committed."""

    first: Whole
    """Number of the first."""
    began: Real
    """Its time, in seconds since the epoch."""
    ms: Milliseconds
    """Milliseconds from each to the next."""
    ranks: Whole
    """Number of ranks that took part."""


class StepDiscarded(Payload, event="step_discarded"):
    """A step that did not count: a rank was lost on the way."""

    step: Whole
    why: Text


class Healed(Payload, event="healed"):
    """The rank was given the state of a neighbour."""

    step: Whole
    source: Words
    """Name of the neighbour, such as `rank0`."""


class StateHashed(Payload, event="state"):
    """Weights and optimizer after a step."""

    step: Whole
    sha256: Text


class FitEnded(Payload, event="fit_ended"):
    """A fit of Lightning, Keras or XGBoost returned."""

    by: Annotated[str, str]
    early: Flag
    """It stopped before its planned end."""


class _Fault(Payload):
    kind: Text
    epoch: Real


class FaultArmed(_Fault, event="fault_armed"):
    """The rank is to fail on purpose at an epoch."""


class FaultFired(_Fault, event="fault_fired"):
    """It did so, or could not."""

    parameter: Text
    """The one that became NaN."""
    problem: Text


# Of who keeps states in memory


class StateGiven(Payload, event="state_given"):
    """A state from memory was given to a training."""

    step: Whole
    sha256: Text
    tensors: Digests
    source: Text
    """The node that kept it."""


def payload_of(event: str, values: Mapping[str, object]) -> Payload:
    """What the fields of an event of this kind say."""
    return KINDS.get(event, Payload)(values)


@cache
def _fields(kind: Hashable) -> tuple[tuple[str, Callable[[object], object]], ...]:
    """Name of each field, and what reads it."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, hint.__metadata__[0]) for name, hint in hints.items())
