"""The runs that a ledger tells of, with their attempts and checkpoints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lab.api.base import Number
from lab.api.ledger import Payload, Reported, WithMetrics
from lab.api.ledger_fields import LiveState, SavedFile
from lab.api.lenient import number

ROUND, COUNTED = "round", "optimizer step"
"""Progress that the recorder counts by itself: rounds of boosted trees, and steps of optimizers."""

Files = Mapping[str, str]
"""A manifest: path relative to the checkpoint -> SHA-256 of the file, in hex."""


def manifest_sha256(files: Files) -> str:
    """Return the SHA-256 of a checkpoint: that of the JSON of its sorted [path, SHA-256] pairs."""
    pairs = json.dumps(sorted([path, sha256] for path, sha256 in files.items()), separators=(",", ":"))
    return hashlib.sha256(pairs.encode()).hexdigest()


def manifest_of(files: Mapping[str, SavedFile] | None) -> Files | None:
    """Return the SHA-256 of every file by its path; None where one is not known."""
    known = {path: file.sha256 for path, file in (files or {}).items() if file.sha256 is not None}
    return known if files is not None and len(known) == len(files) else None


def progress_of(payload: Payload, key: str | None, behind: Number = 0) -> Number | None:
    """Return the metric `key` of an event, or the count of that name; None where it has none.

    Each process counts its steps from 1; `behind` are those of the processes before it.
    """
    if key == ROUND:
        return payload.rounds if isinstance(payload, Reported) else None
    if key == COUNTED:
        steps = payload.optimizer_steps if isinstance(payload, Reported) else None
        return None if steps is None else steps + behind
    return number(payload.metrics.get(key)) if key and isinstance(payload, WithMetrics) else None


@dataclass(frozen=True)
class TrainingPlan:
    """The script's request to Ray Train. `epochs` is None when no key of PLAN_KEYS holds a number."""

    epochs: Number | None = None
    num_workers: int | None = None
    """Ranks; the upper bound when the run is elastic."""
    resources_per_worker: Mapping[str, float] = field(default_factory=dict)
    max_failures: int | None = None
    min_workers: int | None = None
    """The least number of ranks of an elastic run; None when the number is fixed."""
    num_to_keep: int | None = None
    """Number of checkpoints that the run keeps; None: all, or unknown."""
    keeps_all: bool = False
    """True if the recorder has written that no checkpoint is ever deleted."""
    steps: Number | None = None
    """Planned steps of a run that counts those; None when no key of PLAN_STEP_KEYS holds a number."""
    best_by: str = ""
    """The metric that decides which checkpoints Ray Train deletes; empty when their age alone does."""
    replica_groups: bool = False
    """True if each rank is a replica group: a lost one is replaced alone, the others go on."""


@dataclass(frozen=True)
class Report:
    """A `ray.train.report` of a rank that returned. `progress` is None when it carries no progress value."""

    at: float
    progress: Number | None
    metrics: Mapping[str, object]
    checkpoint: str | None
    optimizer_steps: int | None = None
    """Steps with gradients of its rank in this attempt; None where the ledger does not say."""
    trained: bool = True
    """False for an evaluation before the first step of an attempt."""
    empty_steps: int = 0
    """Steps without gradients."""
    rounds: int | None = None
    """Rounds of boosted trees, those that were loaded among them; None for a training of another kind."""
    number: int = 0
    """Its number in its process, from 1; 0 if unknown."""
    handed: bool = False
    """A checkpoint was handed over with it, which may still be on its way."""


@dataclass(frozen=True)
class CheckpointRequest:
    """A rank asked for a checkpoint and was given the one at `uri`, or none."""

    at: float
    rank: int
    uri: str | None


@dataclass(frozen=True)
class Load:
    """A rank read a checkpoint's files; `files` is None when what it read is not known."""

    at: float
    rank: int
    uri: str
    files: Files | None
    tensors: frozenset[str] | None = None
    """Digests of the tensors in these files; None when they are not known."""
    error: str = ""
    """The error by which it could not read them; empty if there was none."""


@dataclass(frozen=True)
class State(LiveState):
    """The live state of a rank at a time: before a step, or at a report."""

    at: float = 0.0
    optimizer: int = 0
    """Of a state before a step: who makes it."""
    gradients: bool = True
    loaded: Mapping[str, str] = field(default_factory=dict)
    steps: int = 0
    """Steps of its rank in this attempt before it."""
    rounds: int | None = None
    planned: int | None = None
    report: int = 0
    """Of a state at a report: the number of that report in its process, from 1."""
    changed: tuple[Number, ...] | None = None
    """Optimizers whose parameters their last step had not left so; None where it was not looked at."""
    progress: Number | None = None
    """Of a state at a report: that report's, also where it did not return any more."""
    saved: bool = False
    """Of a state at a report: a checkpoint was handed over with it, which may not have been uploaded."""

    @property
    def trained(self) -> frozenset[str]:
        """Keys of the parameters that optimizers change, and of boosted trees."""
        return frozenset(key for keys in self.order for key in keys)

    @property
    def parameters(self) -> dict[str, str]:
        """Those alone: key -> digest."""
        return {key: self.tensors[key] for key in self.trained if key in self.tensors}

    def own(self) -> dict[str, str]:
        """Return the parameters of the optimizer that makes the step: key -> digest."""
        keys = self.order[self.optimizer] if self.optimizer < len(self.order) else ()
        return {key: self.tensors[key] for key in keys if key in self.tensors}


@dataclass(frozen=True)
class Replacement:
    """A rank was lost, and replaced while the others went on. Times: seconds since the epoch."""

    rank: int
    given_up_at: float
    at: float | None
    """Time at which the new process was there; None while it is not."""
    node_id: str = ""
    """Node of the lost process."""
    pid: int = 0


@dataclass(frozen=True)
class Remembered:
    """A state that a run was given from the memory of a node, by the record of who kept it there."""

    at: float
    step: int
    """The step after which it was copied."""
    source: str
    """The node that kept it."""
    tensors: frozenset[str]
    """Digests of the tensors in it."""


@dataclass(frozen=True)
class RunAttempt:
    """One attempt of a run. Times: seconds since the epoch, None when it did not happen or is unknown."""

    number: int
    nodes: Mapping[int, str]
    """Rank -> node id, as the controller placed them last; empty when the attempt never started."""
    scheduled_at: float | None
    started_at: float | None
    training_started_at: float | None
    failure_detected_at: float | None
    ended_at: float | None
    reports: tuple[Report, ...]
    """Reports of rank 0, in order; of any rank where a lost one is replaced alone."""
    requests: tuple[CheckpointRequest, ...]
    loads: tuple[Load, ...]
    """Loads of every rank, in order, of any checkpoint."""
    furthest: Number | None
    """The highest progress that was reported, saved or committed before the attempt was over."""
    by_rank: Mapping[int, tuple[Report, ...]] = field(default_factory=dict)
    """Rank -> its reports, in order."""
    begun: Mapping[int, tuple[State, ...]] = field(default_factory=dict)
    """Rank -> its states before steps that did not begin with what the one before them had left, in order."""
    handed: Mapping[int, tuple[State, ...]] = field(default_factory=dict)
    """Rank -> its states at reports, in order."""
    writers: frozenset[int] = frozenset()
    """Ranks of which anything is in the ledger."""
    taken_up: int | None = None
    """Number of reports, each of all ranks, that Ray Train took up; None where its controller did not say."""
    heard_at: float | None = None
    """Time of the last event of rank 0."""
    controller: int = 0
    """Number of the controller that it is of: a driver that is started again starts another one."""
    pids: Mapping[int, int] = field(default_factory=dict)
    """Rank -> id of its process on its node."""
    launched_at: Mapping[int, float] = field(default_factory=dict)
    """Rank -> when Ray began to start its process: before the attempt, if that one stood by."""
    ready_at: Mapping[int, float] = field(default_factory=dict)
    """Rank -> when its process belonged to Ray Train."""
    function_started_at: Mapping[int, float] = field(default_factory=dict)
    """Rank -> when its training function began, with its imports done."""
    services: Mapping[int, str] = field(default_factory=dict)
    """Rank -> service that its node is, or pod."""
    resized_at: float | None = None
    """Time of Ray Train's decision to end it for another number of ranks: an elastic run, no failure."""
    failures: tuple[float, ...] = ()
    """Times at which Ray Train noticed a failure; with replica groups the attempt goes on after most."""
    replacements: tuple[Replacement, ...] = ()
    ended_early: str = ""
    """The library whose early stopping ended its training, such as `Lightning`; empty: none is known."""

    def nodes_at(self, at: float) -> Mapping[int, str]:
        """Return the nodes of the ranks as they were then: rank -> node id."""
        return {**self.nodes, **{r.rank: r.node_id for r in self._replaced_since(at)}}

    def pids_at(self, at: float) -> Mapping[int, int]:
        """Return the processes of the ranks as they were then: rank -> id of its process on its node."""
        return {**self.pids, **{r.rank: r.pid for r in self._replaced_since(at)}}

    def _replaced_since(self, at: float) -> Iterable[Replacement]:
        """The ranks that were replaced after that moment; the first replacement of each comes last."""
        return reversed([r for r in self.replacements if r.given_up_at >= at])

    def first_of(self, rank: int) -> Report | None:
        """Return the first report of a rank that has trained, with a progress value."""
        return next((r for r in self.by_rank.get(rank, ()) if r.trained and r.progress is not None), None)

    @property
    def trained_at(self) -> float | None:
        """Time of the first report that is not of an evaluation before training; None while there is none."""
        return next((r.at for r in self.reports if r.trained), None)

    def lacking(self, rank: int) -> int:
        """Return how many reports that Ray Train took up a rank has not left."""
        return max(0, (self.taken_up or 0) - len(self.by_rank.get(rank, ())))

    @property
    def first(self) -> Report | None:
        """The first report of rank 0, or of any, that has trained, with a progress value."""
        return next((r for r in self.reports if r.trained and r.progress is not None), None)


@dataclass(frozen=True)
class CommittedCheckpoint:
    """A checkpoint that Ray Train registered: from `at` on it would resume from it.

    `at` is that of its record; where there is none, the time at which it was first given to an attempt.
    """

    uri: str
    at: float
    attempt: int
    progress: Number | None
    files: Mapping[str, frozenset[str]] | None
    """Path -> SHA-256. More than one where ranks saved the same path with different content: any of them may
    be what was stored. None when what was saved is not known."""
    saved_by: frozenset[int]
    """The ranks whose part of `files` is known."""
    report: int = 0
    """Number of the report that it was handed over with, in the processes of its attempt; 0 if unknown."""
    sizes: tuple[Number, ...] = ()
    """Of the tensors in its files, in bytes, as far as they are known."""
    states: Mapping[int, State] = field(default_factory=dict)
    """Rank -> its state when the checkpoint was handed over."""
    job: str = ""
    """The earlier job that made it, where it is of another one."""

    def accepts(self, files: Files) -> bool:
        """Tell whether `files` can be exactly what was saved."""
        saved = self.files
        return saved is not None and saved.keys() == files.keys() and all(files[p] in saved[p] for p in saved)

    def sha256(self, like: Files | None = None) -> str | None:
        """Return the SHA-256 as saved, None if unknown. Where ranks disagree on content, `like` decides."""
        if self.files is None:
            return None
        like = like or {}
        return manifest_sha256({p: like[p] if like.get(p) in s else min(s) for p, s in self.files.items()})


@dataclass(frozen=True)
class Run:
    """One Ray Train run of a job."""

    job: str
    name: str
    plan: TrainingPlan | None
    """None when the ledger does not hold the start of the run."""
    finished_at: float | None
    """Its end, or that of its trial; None if neither is known."""
    error: str | None
    progress_key: str | None
    """The one of PROGRESS_KEYS that counts: the first that grows with every report, else the first there."""
    progress_repeats: bool
    """True if even that one stays the same or falls within an attempt."""
    stride: Number
    """Usual growth of the progress from one report to the next."""
    attempts: tuple[RunAttempt, ...]
    checkpoints: tuple[CommittedCheckpoint, ...]
    """Checkpoints in the order of their commits."""
    patches: tuple[str, ...] | None = None
    """The lab's patches of Ray in it; None in ledgers that do not record them."""
    stopped: bool = False
    """True if Ray Tune has ended its trial before it was finished."""
    given: tuple[Remembered, ...] = ()
    """States that it was given from a neighbour's memory, in order."""
    perhaps_committed: frozenset[tuple[int, str]] = frozenset()
    """Attempt and URI of each checkpoint whose commit may have been the last act of its controller."""
    missing: tuple[str, ...] = ()
    """A sentence for each process whose events are known to be incomplete."""

    @property
    def last(self) -> Report | None:
        """The last report of the last attempt that reported."""
        return next((a.reports[-1] for a in reversed(self.attempts) if a.reports), None)

    @property
    def lost(self) -> tuple[RunAttempt, ...]:
        """The attempts that failed and were followed by another; not those ended for another size."""
        return tuple(a for a in self.attempts[:-1] if a.resized_at is None)
