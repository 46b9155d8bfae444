"""Real scripts, honest and lying, over a lab that is broken under them: the receipt never believes a lie.

A script writes down for itself how many epochs its ranks really begin with (scripts/truths.py). By that, and
not by the ledger, it is decided here whether the training resumed from its newest checkpoint.

Several scripts train on a lab at the same time, and meet one fault together. Libraries that the lab lacks
(LightGBM, Hugging Face's Trainer) are installed into a folder that these scripts alone look into, or lie in
that of $RAYLAB_TRUTHS_LIBRARIES. With $RAYLAB_TRUTHS=FILE what was seen is written into the table of FILE:
`RAYLAB_TRUTHS=docs/truths.md labctl test --e2e --all -k tell_the_truth`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lab.api.base import plain
from lab.errors import LabError
from lab.evidence.receipt import FaultRecord, judge
from lab.faults import Scene, Scope, find_fault, rank_on_target
from lab.flows.recovery import FaultRequest, Patience, Watch, gather, inject, take_aim
from tests.e2e.harness import PATIENCE, SCRIPTS, Bench
from tests.e2e.receipts import assert_valid
from tests.e2e.truths_scripts import GROUPS, Script
from tests.e2e.truths_table import write_verdicts
from tests.waiting import eventually

GOOD = ("recovered", "resumed", "as-expected")
EPOCHS = 30
STRIKE = 6
"""The fault comes once a training has reported this epoch, or all have that share it."""

Result = TypeVar("Result")


FAULTS = {"rank-kill": None, "kill": None, "checkpoint-corrupt": None, "pause": None, "s3-down": 4.0}
"""How long each lasts, in seconds; None for as long as it is by itself."""


@dataclass(frozen=True)
class Tried:
    """A script under a fault: what really happened, and what the receipt says."""

    script: Script
    resumed: bool
    """Every rank that began after the fault began with the newest checkpoint, and said so."""
    began_again: bool
    """Ranks began after the fault at all."""
    job_failed: bool
    verdict: str
    reason: str

    @property
    def truth(self) -> str:
        """What really happened, in a word or two."""
        if not self.began_again:
            return "the job failed" if self.job_failed else "went on"
        return "resumed" if self.resumed else "did not resume"

    @property
    def wrong(self) -> bool:
        """Whether a lie was believed, or an honest training was not.

        A job that failed while nothing could be recorded, as without a store, need not be known better.
        """
        if self.began_again and not self.resumed:
            return self.verdict in GOOD and self.verdict != self.script.verdict
        if self.script.does != "honest":
            return False
        unknown = ("not-verified",) if self.truth == "the job failed" else ()
        right = (self.script.verdict or "recovered",) if self.began_again else ("as-expected", *unknown)
        return self.verdict not in right


@dataclass(frozen=True)
class Training:
    """A script as a job, and the folder that it writes its truths into."""

    script: Script
    job: str
    folder: Path

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The lines of this kind that it has written so far, in order."""
        text = "".join(file.read_text() for file in self.folder.glob("*.jsonl"))
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return sorted((line for line in lines if line["kind"] == kind), key=lambda line: float(line["at"]))

    def truth(self, at: float, damaged: int) -> tuple[bool, bool]:
        """Whether its runs that a fault met at this time resumed, and whether they began again.

        The newest intact checkpoint may be somewhat behind the last epoch that was reported: that one may not
        have been committed when the attempt was lost, and `damaged` more were damaged. Where checkpoints
        are uploaded meanwhile, Ray Train tells the script itself which are there.
        """
        reports, commits = self.notes("reported"), self.notes("committed")
        met = {line["run"] for line in reports if line["at"] <= at}
        began = [line for line in self.notes("began") if line["at"] > at and line["run"] in met]
        every = self.script.more.get("every", 1)
        most = 2 * every - 1 + every * damaged
        resumed = bool(began)
        for begin in began:
            mine = [li["says"] for li in reports if li["run"] == begin["run"] and li["at"] < begin["at"]]
            reached = max(mine, default=0)
            there = [li["says"] for li in commits if li["run"] == begin["run"] and li["at"] < at]
            least = max(there) if there else reached - most
            recent = begin["state"] > 0 and least <= begin["state"] <= reached + 1
            from_it = recent and not begin.get("elsewhere")
            resumed = resumed and from_it and begin["says"] == begin["state"] + 1
        return resumed, bool(began)


@dataclass(frozen=True)
class Blow:
    """A fault as it was done to a training, and the scene in which it is still to be undone."""

    record: FaultRecord
    scene: Scene | None = None

    def undone(self) -> FaultRecord:
        """Undo it, if that is still to be done."""
        if self.scene is None:
            return self.record
        find_fault(self.record.kind).revert(self.scene)
        return replace(self.record, reverted_at=time.time())


@pytest.fixture(scope="session")
def libraries(home: Path) -> str:
    """A folder with the libraries that the lab lacks: that of $RAYLAB_TRUTHS_LIBRARIES, or a new one."""
    given = os.environ.get("RAYLAB_TRUTHS_LIBRARIES")
    folder = given or str(home / "libraries")
    if not given:
        install = ("pip", "install", "--no-deps", "--target", folder, "-r", str(SCRIPTS / "truths.txt"))
        subprocess.run((sys.executable, "-m", "uv", *install), check=True, timeout=5 * PATIENCE)
    return folder


def begin(bench: Bench, script: Script, folder: Path, libraries: str) -> Training:
    """Submit it. It does not train before `start` is in its folder."""
    folder.mkdir(parents=True)
    config = {"library": script.library, "does": script.does, "epochs": EPOCHS, **script.more}
    variables = {"TRUTHS": str(folder), "TRUTHS_LIBRARIES": libraries}
    started = bench.lab.submit(
        command=("python", "truths.py", json.dumps(config)),
        working_dir=SCRIPTS,
        runtime_env={"env_vars": variables},
    )
    return Training(script, started.submission_id, folder)


def reaches(bench: Bench, training: Training, kind: str, epoch: int = 0) -> None:
    """Wait until a training has written such a line, of this epoch or a later one."""

    def reached() -> bool:
        over = bench.lab.jobs.get(training.job).final
        return over or any(line["says"] >= epoch for line in training.notes(kind))

    eventually(reached, 4 * PATIENCE, f"{training.script} has {kind} epoch {epoch}")
    assert any(line["says"] >= epoch for line in training.notes(kind)), bench.lab.jobs.logs(training.job)


@dataclass
class Broken:
    """Scripts that could not be tried to their end, and why; the others of their group go on."""

    why: dict[str, str] = field(default_factory=dict)

    def without(
        self, trainings: Iterable[Training], do: Callable[[Training], Result]
    ) -> dict[Training, Result]:
        """What this gives of each training; one that fails is left out."""
        results = {}
        for training in trainings:
            try:
                results[training] = do(training)
            except (AssertionError, LabError) as error:
                self.why[str(training.script)] = str(error)
        return results


def waves(
    bench: Bench, fault: str, trainings: Sequence[Training], broken: Broken
) -> Iterator[tuple[str, list[Training]]]:
    """The trainings that meet the fault together, and its target if it is a node."""
    if find_fault(fault).kind.scope is not Scope.NODE:
        yield "", list(trainings)
        return
    left = list(trainings)
    while places := broken.without(left, lambda training: bench.where(training.job)):
        node = min(places.values())
        yield node, [training for training, place in places.items() if place == node]
        # Those left are asked anew: the controller of one of Tune's may have been on that node.
        left = [training for training, place in places.items() if place != node]


def strike(
    bench: Bench, fault: str, target: str, wave: Sequence[Training], broken: Broken
) -> dict[Training, Blow]:
    """Let them train, and break something that they share, or something of each."""
    for training in wave:
        (training.folder / "start").touch()
    if find_fault(fault).kind.scope in (Scope.RANK, Scope.CHECKPOINT):
        with ThreadPoolExecutor(len(wave) or 1) as pool:
            blows = {one: pool.submit(strike_alone, bench, fault, one) for one in wave}
            return broken.without(wave, lambda training: blows[training].result())
    ready = list(broken.without(wave, lambda training: reaches(bench, training, "reported", STRIKE)))
    if not ready:
        return {}
    request = FaultRequest(target=target, kind=fault, job=ready[0].job, duration=FAULTS[fault])
    blow = Blow(inject(bench.lab, request, lambda moment: None, wait=False).fault)
    for training in wave:
        (training.folder / "struck").touch()
    return dict.fromkeys(ready, blow)


def strike_alone(bench: Bench, name: str, training: Training) -> Blow:
    """Break something of one training alone, without a wait for what becomes of it."""
    reaches(bench, training, "reported", STRIKE)
    watch, fault = Watch(bench.lab, training.job), find_fault(name)
    watch.poll()
    aim = take_aim(watch, "", fault.kind)
    assert aim is not None, f"{training.script} does not train"
    scene = Scene(
        runtime=bench.lab.runtime, target=aim.target, job=training.job, parameters=fault.kind.settle({}),
        store=bench.lab.store, ranks=aim.ranks, checkpoints=aim.checkpoints,
    )  # fmt: skip
    struck = fault.inject(scene)
    assert struck is not None
    record = FaultRecord(
        kind=name, target=aim.target, node_id=aim.node.node_id if aim.node else "", at=struck.first,
        done_at=struck.last, expected=fault.kind.expected, traits=fault.kind.traits,
        damaged=tuple(scene.memo.get("damaged", ())), pid=rank_on_target(scene).pid,
    )  # fmt: skip
    (training.folder / "struck").touch()
    return Blow(record, scene)


def try_out(
    bench: Bench, scripts: Sequence[Script], fault: str, folder: Path, libraries: str = ""
) -> tuple[list[Tried], Mapping[str, str]]:
    """Try these scripts under a fault; also those that failed before they could be judged, and why."""
    broken = Broken()
    trainings = [begin(bench, script, folder / str(n), libraries) for n, script in enumerate(scripts)]
    begun = broken.without(trainings, lambda training: reaches(bench, training, "began"))
    struck: dict[Training, Blow] = {}
    for target, wave in waves(bench, fault, list(begun), broken):
        struck |= strike(bench, fault, target, wave, broken)
        for training in wave if target else ():  # the next wave's fault is not theirs
            bench.lab.jobs.wait(training.job, 4 * PATIENCE)
    outcomes = broken.without(struck, lambda training: tried(bench, training, struck[training]))
    return list(outcomes.values()), broken.why


def tried(bench: Bench, training: Training, blow: Blow) -> Tried:
    """What became of a training, and what its receipt says, once its job has ended."""
    watch = Watch(bench.lab, training.job)
    patience = Patience(watch)
    assert patience.wait_for_end() is not None, f"{training.script}: {patience.describe()}"
    fault = blow.undone()
    receipt = judge(gather(watch, fault))
    assert_valid(plain(receipt))
    truth = training.truth(fault.at, len(fault.damaged))
    failed = bench.lab.jobs.get(training.job).status == "FAILED"
    return Tried(training.script, *truth, failed, receipt.verdict.value, receipt.reason)


def marks(group: int, fault: str) -> tuple[Any, ...]:
    return () if (group, fault) == (0, "rank-kill") else (pytest.mark.rare,)


@pytest.mark.parametrize(
    ("group", "fault"),
    [
        pytest.param(group, fault, marks=marks(group, fault), id=f"{fault}-{group}")
        for fault in FAULTS
        for group in range(len(GROUPS))
    ],
)
def test_receipts_tell_the_truth(
    bench: Bench, tmp_path: Path, request: pytest.FixtureRequest, group: int, fault: str
) -> None:
    libraries = request.getfixturevalue("libraries") if group else ""
    began = time.monotonic()
    outcomes, broken = try_out(bench, GROUPS[group], fault, tmp_path / f"{fault}-{group}", libraries)
    print(f"{time.monotonic() - began:.0f} s")
    for one in outcomes:
        print(f"{one.truth}\t{one.script} under {fault}: {one.verdict}: {one.reason}")
    if table := os.environ.get("RAYLAB_TRUTHS"):
        write_verdicts(Path(table), fault, {str(o.script): f"{o.truth}: {o.verdict}" for o in outcomes})
    assert ([one for one in outcomes if one.wrong], broken) == ([], {})
