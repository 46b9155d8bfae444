"""Stories of a job that lost a node, as evidence, and what the receipt must say about each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lab.api.ledger import StepsTaken
from lab.evidence.ledger import Event, History, manifest_sha256, parse_events
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord
from lab.faults import find_fault
from lab.topology import ServiceStatus, State
from tests.fakes.ledger import counted

CHECKS = (
    "job finished",
    "a real fault",
    "moved",
    "right checkpoint",
    "same state",
    "resumed, not restarted",
    "little lost",
    "lab whole again",
)
DATA = Path(__file__).parent
FINISHED, FAULT, MOVED, RIGHT, STATE, RESUMED, LOST, WHOLE = CHECKS
AFTER_FAULT = set(CHECKS) - {FINISHED, WHOLE}
AT = 7.0
"""When the fault comes: in the first attempt, after its third report."""


def real(name: str) -> tuple[Event, ...]:
    """The events of a recorded run."""
    return parse_events((DATA / f"{name}.jsonl").read_bytes().splitlines())


@cache
def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def uri(place: float) -> str:
    return f"s3://ray/run/checkpoint_{place}"


def content(place: float) -> dict[str, str]:
    return {"model.pt": sha(f"model {place}")}


def event(
    name: str, at: float, attempt: int = 1, rank: int | None = None, run: str = "run", **fields: Any
) -> Event:
    return Event(name, at, "job", run, attempt, rank, "", fields)


def later(entry: Event, by: float) -> Event:
    """The same event so many seconds later, with the steps that it tells of."""
    said = entry.payload
    began = {"began": said.began + by} if isinstance(said, StepsTaken) and said.began is not None else {}
    return replace(entry, at=entry.at + by, fields={**entry.fields, **began})


KEYS = ("0.layer1", "0.layer2")
"""Keys of the tensors of a model."""


def tensors(place: float) -> list[str]:
    """Digests of the weights of a checkpoint; of 0, of those that training begins with."""
    return [f"layer 1 of {place}", f"layer 2 of {place}"]


def state(place: float) -> dict[str, Any]:
    """The state of a rank that has these weights, as events tell it."""
    digests = tensors(place)
    return {"state": {"tensors": dict(zip(KEYS, digests, strict=True)), "order": [list(KEYS)]}}


def begun(at: float, attempt: int, rank: int, place: float) -> Event:
    """A rank makes the first step of an attempt with these weights."""
    return event("state_begun", at, attempt, rank, **state(place), optimizer=0, gradients=True, steps=0)


def handed(
    at: float, attempt: int, rank: int, place: float, number: int, metrics: Mapping[str, Any]
) -> Event:
    """A rank has these weights at its report of this number."""
    return event("state_handed", at, attempt, rank, **state(place), report=number, metrics=metrics)


def files(manifest: Mapping[str, str]) -> dict[str, Any]:
    return {path: {"size": 1, "sha256": digest} for path, digest in manifest.items()}


@dataclass(frozen=True)
class Story:
    """The ledger of a job whose first attempt is hit at AT and whose second one takes over."""

    first: tuple[Any, ...] = (1, 2, 3)
    """Progress values that the first attempt reports, from 2 s on, one every 2 s."""
    second: tuple[Any, ...] = (4, 5)
    every: int = 1
    """A checkpoint with every so many reports."""
    asks: Any = "newest"
    """What get_checkpoint gives the second attempt; None for none, False when it is never called."""
    loads: tuple[Any, ...] = (3,)
    """The checkpoint that each rank of the second attempt loads."""
    loaded: Mapping[str, str] | None = None
    """What is loaded, where that is not what was saved."""
    weights: Any = "loaded"
    """The checkpoint whose weights each rank of the second attempt begins with; 0 for fresh ones, None where
    that is not recorded."""
    key: str = "epoch"
    config: Mapping[str, Any] = field(default_factory=lambda: {"epochs": 5})
    counted: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """Optimizer steps that each report of the first and the second attempt tells."""
    nodes: tuple[tuple[str, ...], tuple[str, ...]] = (("a",), ("b",))
    """The nodes of the first and the second attempt, by rank."""
    takes_over: bool = True
    error: str | None = None
    run: str = "run"
    more: tuple[Event, ...] = ()
    without: tuple[str, ...] = ()

    def events(self) -> tuple[Event, ...]:
        return counted(self._events())

    def _events(self) -> tuple[Event, ...]:
        events = [event("run_started", 0, 0, config=dict(self.config), num_workers=len(self.nodes[0]))]
        events += self._attempt(1, 0.5, self.first, 2.0)
        if self.takes_over:
            events += [event("failure_detected", 8, decision="RETRY"), event("attempt_ended", 8.1)]
            events += self._attempt(2, 8.2, self.second, 11.0)
            if self.asks is not False:
                events += [
                    event(
                        "get_checkpoint",
                        10.1,
                        2,
                        0,
                        uri=self.asks and uri(self.loads[0] if self.loads else 3),
                    )
                ]
            for rank, place in enumerate(self.loads):
                given = files(self.loaded if self.loaded is not None else content(place))
                loaded: dict[str, Any] = {"uri": uri(place), "files": given, "tensors": tensors(place)}
                events += [event("checkpoint_loaded", 10.2, 2, rank, **loaded)]
            if self.weights is not None:
                events += [begun(10.3, 2, rank, self._begun(rank)) for rank in range(len(self.nodes[1]))]
        last = 2 if self.takes_over else 1
        events += [
            event("attempt_ended", 30, last),
            event("run_finished", 31, last, error=self.error),
            *self.more,
        ]
        return tuple(replace(e, run=self.run) for e in events if e.event not in self.without)

    def _begun(self, rank: int) -> Any:
        """The checkpoint whose weights a rank of the second attempt begins with: its own, or rank 0's."""
        if self.weights != "loaded":
            return self.weights
        return self.loads[min(rank, len(self.loads) - 1)] if self.loads else 0

    def _attempt(self, n: int, at: float, places: tuple[Any, ...], begin: float) -> list[Event]:
        workers = [{"rank": r, "node_id": node} for r, node in enumerate(self.nodes[n - 1])]
        events = [
            event("attempt_scheduled", at, n),
            event("attempt_started", at + 0.5, n, workers=workers),
            event("training_started", at + 1, n),
            *(event("rank_ready", at + 1, n, rank) for rank in range(len(workers))),
        ]
        if n == 1 and self.weights is not None:
            events += [begun(at + 1.1, n, rank, 0) for rank in range(len(workers))]
        for i, place in enumerate(places):
            when, metrics = begin + 2 * i, {} if place is None else {self.key: place}
            saves = (i + 1) % self.every == 0
            if self.weights is not None and place is not None:
                events += [
                    handed(when - 0.01, n, rank, place, i + 1, metrics) for rank in range(len(workers))
                ]
            if saves:
                saved: dict[str, Any] = {"uri": uri(place), "metrics": metrics}
                events += [
                    event("checkpoint_saved", when, n, 0, files=files(content(place)), report=i + 1, **saved)
                ]
                events += [event("checkpoint_committed", when + 0.2, n, **saved)]
            done: dict[str, Any] = {"optimizer_steps": self.counted[n - 1][i]} if self.counted[n - 1] else {}
            events += [
                event("report", when + 0.1, n, rank, metrics=metrics, report=i + 1, **done)
                for rank in range(len(workers))
            ]
            if saves:
                first = events[-len(workers)]
                events[-len(workers)] = replace(
                    first, fields={**first.fields, "handed": True, "checkpoint": uri(place)}
                )
        return events


KILLED = find_fault("kill").kind.traits
FROZEN = find_fault("pause").kind.traits
FAULT_KILL = FaultRecord("kill", "ray-worker-0", "a", AT, reverted_at=12, traits=KILLED)
FAULT_PAUSE = FaultRecord(
    "pause", "ray-worker-0", "a", AT, reverted_at=9, parameters={"for": 2}, traits=FROZEN
)  # fmt: skip
HEAD = NodeRecord("ray-head", "h", True, -10)
NODES = (
    HEAD,
    NodeRecord("ray-worker-0", "a", False, -5, 7.7, "health check failed"),
    NodeRecord("ray-worker-1", "b", True, -4),
    NodeRecord("ray-worker-0", "a2", True, 12.5),
    NodeRecord("ray-worker-0", "a0", False, -20, -6, "terminated"),
)
UNHURT = (HEAD, NodeRecord("ray-worker-0", "a", True, -5), NodeRecord("ray-worker-1", "b", True, -4))
SERVICES = tuple(
    ServiceStatus(s, State.HEALTHY) for s in ("ray-head", "ray-worker-0", "ray-worker-1", "minio")
)


def evidence(story: Story | None = None, **other: Any) -> Evidence:
    given: dict[str, Any] = {
        "submission_id": "job",
        "job_status": "SUCCEEDED",
        "fault": FAULT_KILL,
        "events": (story or Story()).events(),
        "nodes": NODES,
        "services": SERVICES,
    }
    return Evidence(**{**given, **other})


def report(at: float, attempt: int, place: Any, rank: int = 0) -> Event:
    return event("report", at, attempt, rank, metrics={"epoch": place})


def third_attempt(*places: int, loads: int = 5) -> tuple[Event, ...]:
    workers = [{"rank": 0, "node_id": "a2"}]
    start = [event("attempt_scheduled", 20, 3), event("attempt_started", 21, 3, workers=workers)]
    start += [
        load(21.5, content(loads), place=loads, attempt=3),
        begun(21.6, 3, 0, loads),
    ]
    return (*start, *(report(22 + i, 3, place) for i, place in enumerate(places)))


def saved_by(rank: int, place: int, manifest: Mapping[str, str] | None, epoch: int | None = 3) -> Event:
    given = None if manifest is None else files(manifest)
    more: dict[str, Any] = {"metrics": {"epoch": epoch}, "report": 3 if epoch is not None else None}
    return event("checkpoint_saved", 6.1, 1, rank, uri=uri(place), files=given, **more)


@dataclass(frozen=True)
class Row:
    """A story, and what the receipt must say: which checks do not pass, words of a detail, the verdict."""

    name: str
    evidence: Evidence
    not_passed: set[str] = field(default_factory=set)
    says: str = ""
    verdict: str = ""


TWO = Story(nodes=(("a", "b"), ("b", "a2")), loads=(3, 3))
PAUSED: dict[str, Any] = {"fault": FAULT_PAUSE, "nodes": UNHURT}
MIDWAY = Story(takes_over=False, without=("run_finished", "attempt_ended"))
STEPS: dict[str, Any] = {
    "first": (100, 200, 300),
    "second": (400, 500),
    "key": "step",
    "loads": (300,),
}
ALL_AGAIN = (1, 2, 3, 4, 5)
NONE_TO_LOAD: dict[str, Any] = {"asks": None, "loads": ()}
CHANGED = {"model.pt": sha("changed")}
SAVED_3 = manifest_sha256(content(3))


def proof(**story: Any) -> Evidence:
    return evidence(Story(**story))


def load(
    at: float, manifest: Mapping[str, str] | None, rank: int = 0, place: Any = 3, attempt: int = 2
) -> Event:
    given = None if manifest is None else files(manifest)
    return event("checkpoint_loaded", at, attempt, rank, uri=uri(place), files=given, tensors=tensors(place))


# fmt: off
RECOVERED = [
    Row("a node is killed and training goes on elsewhere",
        evidence(), set(), "began with epoch 4, its checkpoint is of epoch 3"),
    Row("training goes on on the restarted node",
        proof(nodes=(("a",), ("a2",))), set(), "the restarted one (new node a2)"),
    Row("one of two ranks is lost",
        evidence(TWO)),
    Row("only rank 0 loads, and shares it",
        evidence(replace(TWO, loads=(3,)))),
    Row("a frozen node is declared dead",
        evidence(fault=FAULT_PAUSE), set(), "frozen in attempt 1, after 3 checkpoints"),
    Row("a frozen node survives, its attempt does not",
        evidence(**PAUSED), set(), "the same node all along"),
    Row("epochs count from 0",
        proof(first=(0, 1, 2), second=(3, 4), loads=(2,)), set(), "the planned one 4"),
    Row("progress in steps",
        proof(first=(100, 200, 300), second=(400, 500), key="step", loads=(300,)), set(),
        "first reported step 400, of every 100, its checkpoint is of step 300"),
    Row("steps that were counted",
        proof(**STEPS, counted=((100, 200, 300), (100, 200))), set(), "attempt 2 began with step 301"),
    Row("steps with a planned end",
        proof(**STEPS | {"config": {"steps": 500}}), set(),
        "the last step reported is 500, the planned one 500"),
    Row("the last report comes after fewer steps than the others",
        proof(**STEPS | {"second": (340,)}, counted=((100, 200, 300), (40,))), set(),
        "began with step 301, its checkpoint is of step 300"),
    Row("steps that a script counts otherwise than its optimizer prove nothing",
        proof(**STEPS, counted=((7, 14, 21), (7, 14))), set(), "first reported step 400, of every 100"),
    Row("no epochs are planned",
        proof(config={"lr": 0.1}), set(), "names no number of epochs"),
    Row("a checkpoint with every second report",
        proof(first=(2, 3, 4), second=(4, 5), every=2, loads=(3,)), set(), "1 epoch repeated"),
    Row("an attempt that reports nothing comes between",
        proof(second=(), more=third_attempt(4, 5, loads=3)), set(),
        "attempt 3 began with epoch 4"),
    Row("the checkpoint is still as it was",
        evidence(stored={uri(3): content(3)}), set(), "and as it is stored now"),
    Row("the checkpoint has since been deleted",
        evidence(stored={uri(3): {}})),
    Row("two ranks saved the same path differently",
        proof(more=(saved_by(1, 3, CHANGED),), loaded=CHANGED)),
    Row("the load was not seen, and the state shows it",
        proof(loads=(), weights=3)),
    Row("other files were loaded than those that were saved, and the state shows it",
        proof(loaded=CHANGED)),
    Row("the files are stored otherwise now, and the state shows what was loaded",
        evidence(stored={uri(3): CHANGED})),
    Row("what was saved is not known, but for the state",
        proof(without=("checkpoint_saved",))),
    Row("another job's ledger is among the events",
        evidence(events=(*Story().events(), replace(report(50, 9, 1), job="other")))),
]
RESUMED_ONLY = [
    Row("no state could be compared",
        proof(weights=None), {STATE}, "rank 0 of attempt 2 has no optimizer of PyTorch"),
]
RESTARTED = [
    Row("get_checkpoint is never called",
        proof(second=ALL_AGAIN, asks=False, loads=()), {RIGHT, STATE, RESUMED, LOST},
        "never called ray.train.get_checkpoint()"),
    Row("the checkpoint is asked for, but not opened",
        proof(second=ALL_AGAIN, loads=()), {RIGHT, STATE, RESUMED, LOST},
        "labctl saw no read of the checkpoint"),
    Row("the checkpoint is opened, but the loop begins anew",
        proof(second=ALL_AGAIN), {RESUMED, LOST}, "began with epoch 1 anyway"),
    Row("Ray gives no checkpoint",
        proof(second=ALL_AGAIN, **NONE_TO_LOAD), {RIGHT, STATE, RESUMED, LOST}, "gave the script none"),
    Row("a restart is known while the job still runs",
        evidence(Story(second=(1, 2), asks=False, loads=(), without=("run_finished",)), job_status="RUNNING"),
        {FINISHED, RIGHT, STATE, RESUMED, LOST}, "began again with epoch 1"),
    Row("a restart is known although the job failed",
        evidence(Story(second=(1, 2)), job_status="FAILED"), {FINISHED, RESUMED, LOST},
        "began again with epoch 1"),
    Row("only the attempt after the next restarts",
        proof(more=third_attempt(1, 2, 3, 4, 5)), {RESUMED, LOST}, "attempt 3 began again"),
    Row("progress repeats, and falls back to the start",
        proof(first=(1, 2, 2), second=(1, 2, 5), loads=(2,)), {RESUMED, LOST}, "began again with epoch 1"),
]
FAILED = [
    Row("steps that the checkpoint did not hold are left out",
        proof(**STEPS, counted=((100, 200, 300), (60, 160))), {RESUMED},
        "began with step 341, its checkpoint is of step 300"),
    Row("the undisturbed run went on for longer",
        evidence(control=History.of(Story(second=(4, 5, 6)).events())), {FINISHED},
        "the undisturbed run at epoch 6"),
    Row("the job fails",
        evidence(job_status="FAILED", job_message="Traceback\nRuntimeError: no node"), {FINISHED},
        "the job is FAILED after its run had ended well: RuntimeError: no node"),
    Row("the job is stopped before the new attempt",
        evidence(MIDWAY, job_status="STOPPED"), AFTER_FAULT | {FINISHED}, "the job is STOPPED"),
    Row("the run ends with an error that the script swallows",
        proof(error="WorkerGroupError"), {FINISHED}, "WorkerGroupError"),
    Row("one rank comes back on the node that was hit",
        evidence(replace(TWO, nodes=(("a", "b"), ("b", "a")))), {MOVED}, "the very node"),
    Row("an older checkpoint is loaded",
        proof(second=(3, 4, 5), loads=(2,)), {RIGHT, STATE, RESUMED},
        "checkpoint_2, not the newest, checkpoint_3"),
    Row("one rank loads an older checkpoint",
        evidence(replace(TWO, loads=(3, 2))), {RIGHT, STATE}, "rank 1 loaded checkpoint_2"),
    Row("the ranks load different content",
        evidence(replace(TWO, more=(saved_by(1, 3, CHANGED), load(10.3, CHANGED, rank=1)), weights=None)),
        {RIGHT, STATE}, "different content"),
    Row("what is loaded is not what was saved",
        proof(loaded=CHANGED, weights=None), {RIGHT, STATE},
        f"saved {SAVED_3[:8]}, loaded {manifest_sha256(CHANGED)[:8]}"),
    Row("a known file differs, and a rank's part is not known",
        evidence(replace(TWO, loads=(3,), loaded=CHANGED, weights=None)), {RIGHT, STATE}, "SHA-256"),
    Row("a file is missing from what is loaded",
        proof(loaded={}, weights=None), {RIGHT, STATE}, "SHA-256"),
    Row("a file is loaded that no rank saved",
        proof(loaded={**content(3), "odd": sha("odd")}, weights=None), {RIGHT, STATE}, "SHA-256"),
    Row("what is stored is not what was loaded",
        evidence(Story(weights=None), stored={uri(3): CHANGED}), {RIGHT, STATE},
        f"stored {manifest_sha256(CHANGED)[:8]}"),
    Row("epochs are left out",
        proof(second=(5,)), {RESUMED}, "began with epoch 5"),
    Row("epochs are done twice",
        proof(second=(2, 3, 4, 5)), {RESUMED, LOST}, "2 epochs repeated"),
    Row("checkpoints stopped coming before the fault",
        proof(more=(report(6.3, 1, 4), report(6.5, 1, 5))), {LOST},
        "2 epochs repeated; checkpoints are 1 apart"),
    Row("a later attempt does not go on where it should",
        proof(more=third_attempt(3, 4, 5)), {RESUMED, LOST}, "attempt 3 began with epoch 3"),
    Row("a service is sick at the end",
        evidence(services=(*SERVICES, ServiceStatus("jupyter", State.EXITED, "gone"))), {WHOLE},
        "jupyter is exited: gone"),
    Row("the fault is not reverted",
        evidence(fault=replace(FAULT_KILL, reverted_at=None)), {WHOLE}, "has not been reverted"),
    Row("the node does not come back",
        evidence(nodes=NODES[:3]), {WHOLE}, "not back"),
]
NOT_VERIFIED = [
    Row("fewer steps than planned",
        proof(**STEPS | {"config": {"steps": 900}}), {FINISHED}, "or lost steps is not known"),
    Row("the last planned epoch is missing",
        proof(config={"epochs": 6}), {FINISHED}, "without an error at epoch 5 of 6"),
    Row("the last of the epochs counted from 0 is missing",
        proof(first=(0, 1, 2), second=(3, 4), loads=(2,), config={"epochs": 6}), {FINISHED},
        "at epoch 4 (5 of 6, counted from 0)"),
    Row("there is no ledger",
        evidence(events=()), AFTER_FAULT | {FINISHED}, "there is no ledger"),
    Row("there is only another job's ledger",
        evidence(submission_id="other"), AFTER_FAULT | {FINISHED}, "there is no ledger"),
    Row("something could not be read",
        evidence(problems=("the ledger could not be read",)), set(), "the ledger could not be read"),
    Row("the job still runs",
        evidence(job_status="RUNNING"), {FINISHED}, "RUNNING"),
    Row("Ray does not know the job",
        evidence(job_status=""), {FINISHED}, "did not say"),
    Row("the node is not back while the job still runs",
        evidence(job_status="RUNNING", nodes=NODES[:3]), {FINISHED, WHOLE}, "RUNNING"),
    Row("no new attempt yet",
        evidence(MIDWAY, job_status="RUNNING"), AFTER_FAULT | {FINISHED}, "no new attempt has started"),
    Row("a failure, but no new attempt",
        evidence(replace(MIDWAY, more=(event("failure_detected", 8),)), job_status="RUNNING"),
        (AFTER_FAULT | {FINISHED}) - {FAULT}, "RUNNING"),
    Row("the new attempt has not reported",
        evidence(Story(second=(), without=("run_finished",)), job_status="RUNNING"),
        {FINISHED, RESUMED, LOST}, "RUNNING"),
    Row("the script reports no progress",
        proof(key="loss"), {RESUMED, LOST}, "no progress value"),
    Row("progress repeats within an attempt",
        proof(first=(1, 2, 2), second=(3, 5), loads=(2,)), {RESUMED, LOST}, "does not grow"),
    Row("no checkpoint before the fault",
        proof(every=9, second=ALL_AGAIN, **NONE_TO_LOAD), {FAULT, RIGHT, STATE, RESUMED, LOST},
        "no checkpoint had been committed"),
    Row("the checkpoint's progress is not known",
        proof(loads=(9,), weights=None, more=(event("checkpoint_committed", 6.9, uri=uri(9)),
                               saved_by(0, 9, content(9), epoch=None))),
        {RESUMED, STATE}, "how far the checkpoint"),
    Row("neither a load nor a state was seen",
        proof(loads=(), weights=None), {RIGHT, STATE}, "labctl saw no read of the checkpoint"),
    Row("a load after the first report does not count",
        proof(loads=(), more=(load(20, content(3)),), weights=None), {RIGHT, STATE}, "labctl saw no read"),
    Row("some other checkpoint was loaded",
        proof(more=(load(10, {}, place="base"),), **NONE_TO_LOAD, weights=None), {RIGHT, STATE},
        "ray.train.get_checkpoint() gave the script none"),
    Row("opening the checkpoint failed",
        proof(loads=(), weights=None, more=(
            event("checkpoint_loaded", 10.2, 2, 0, uri=uri(3), error="OSError('gone')"),)), {RIGHT, STATE},
        "opening its checkpoint failed: OSError('gone')"),
    Row("what was saved is not known",
        proof(without=("checkpoint_saved",), weights=None), {RIGHT, STATE}, "as saved is not known"),
    Row("what one rank saved is not known",
        evidence(replace(TWO, more=(saved_by(1, 3, None),), weights=None)), {RIGHT, STATE},
        "as saved is not known"),
    Row("what was loaded is not known",
        proof(loads=(), more=(load(10, None),), weights=None), {RIGHT, STATE}, "as loaded is not known"),
    Row("a rank's part of the checkpoint was not recorded",
        evidence(replace(TWO, loads=(3,), loaded={**content(3), "rank1.pt": sha("one")}, weights=None)),
        {RIGHT, STATE}, "not every rank's part"),
    Row("the state at the checkpoint was not recorded",
        proof(without=("state_handed",)), {STATE}, "checkpoint_3 (epoch 3) is not in the ledger"),
    Row("only the first attempt has a state",
        proof(weights=None, more=(begun(1.6, 1, 0, 0),)), {STATE}, "made no step of an optimizer"),
    Row("progress repeats, and had not grown when the fault came",
        proof(first=(1, 1, 1), second=(1, 2, 5), loads=(1,)), {RESUMED, LOST}, "does not grow"),
    Row("the only checkpoint was committed after the fault",
        proof(every=9, second=ALL_AGAIN, **NONE_TO_LOAD, more=(
            event("checkpoint_committed", 7.5, uri=uri(3), metrics={"epoch": 3}),)),
        {FAULT, RIGHT, STATE, RESUMED}, "no checkpoint had been committed"),
    Row("the fault came while the next attempt was being started",
        evidence(Story(without=("failure_detected", "attempt_ended")), fault=replace(FAULT_KILL, at=8.3)),
        AFTER_FAULT, "already over"),
    Row("the fault did nothing to its node",
        evidence(nodes=UNHURT), {FAULT, WHOLE}, "as alive"),
    Row("the start of the run is missing",
        proof(without=("run_started",)), {FINISHED}, "lacks the start"),
    Row("the end of the run is missing",
        proof(without=("run_finished",)), {FINISHED}, "lacks the end"),
    Row("where attempts ran is missing",
        proof(without=("attempt_started",)), AFTER_FAULT, "no attempt that had started"),
    Row("the job ran elsewhere",
        proof(nodes=(("b",), ("b",))), AFTER_FAULT, "ran on ray-worker-1, not on ray-worker-0"),
    Row("the fault came between two attempts",
        evidence(fault=replace(FAULT_KILL, at=8.15)), AFTER_FAULT, "already over"),
    Row("the fault came before the first attempt",
        evidence(fault=replace(FAULT_KILL, at=0.2)), AFTER_FAULT, "no attempt that had started"),
    Row("the fault came after the end",
        evidence(fault=replace(FAULT_KILL, node_id="b", at=32)), AFTER_FAULT, "already over"),
    Row("Ray does not list the node",
        evidence(nodes=(HEAD, *NODES[2:])), {FAULT}, "nowhere"),
    Row("Ray lists no nodes",
        evidence(nodes=()), {FAULT, WHOLE}, "nowhere"),
    Row("a killed node lives",
        evidence(nodes=(*UNHURT, NODES[3])), {FAULT}, "as alive"),
    Row("the node had died before",
        evidence(nodes=(HEAD, replace(NODES[1], ended_at=5), *NODES[2:])), {FAULT},
        "had been dead for 2.0 s"),
    Row("a short freeze",
        evidence(Story(first=ALL_AGAIN, takes_over=False), **PAUSED), AFTER_FAULT,
        "the freeze ended before Ray noticed it; nothing had to recover"),
    Row("a short freeze, the job still runs",
        evidence(replace(MIDWAY, first=(1, 2, 3, 4)), **PAUSED, job_status="RUNNING"),
        AFTER_FAULT | {FINISHED}, "the freeze ended before Ray noticed it; nothing had to recover"),
    Row("the attempt goes on without the node",
        proof(first=ALL_AGAIN, takes_over=False), AFTER_FAULT, "went on undisturbed"),
    Row("a frozen node lives and Ray saw no failure",
        evidence(Story(without=("failure_detected",)), **PAUSED), {FAULT}, "noticed no failure"),
    Row("the services are not known",
        evidence(services=()), {WHOLE}, "services is not known"),
]
# fmt: on
ROWS = [
    replace(row, verdict=verdict)
    for verdict, rows in (
        ("recovered", RECOVERED),
        ("resumed", RESUMED_ONLY),
        ("restarted-from-scratch", RESTARTED),
        ("failed", FAILED),
        ("not-verified", NOT_VERIFIED),
    )
    for row in rows
]
