"""Faults that a rank does to itself at an epoch: exception-at-epoch, nan-at-epoch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.errors import RefusedError
from lab.faults import find_fault
from lab.topology import LEDGER_PREFIX
from tests.fakes.store import FakeObjectStore
from tests.unit.faults.ranks import PID, asked, probe, scene, up

NAMES = ["exception-at-epoch", "nan-at-epoch"]


def ledger(reached: int | None, planned: int = 20, key: str = "epoch") -> FakeObjectStore:
    """A job that has reported so many epochs of those planned."""
    common = {"schema": "ledger/1", "job": "j", "run": "r", "attempt": 1}
    lines: list[dict[str, Any]] = [
        {**common, "event": "run_started", "at": 1.0, "num_workers": 1, "config": {"epochs": planned}}
    ]
    for epoch in range(1, (reached or 0) + 1):
        report = {"event": "report", "at": 1.0 + epoch, "rank": 0, "metrics": {key: epoch}}
        lines.append({**common, **report})
    store = FakeObjectStore()
    store.put(f"{LEDGER_PREFIX}/j/rank0.jsonl", "\n".join(map(json.dumps, lines)).encode())
    return store


@pytest.mark.parametrize(("name", "word"), [(NAMES[0], "exception"), (NAMES[1], "nan")])
def test_the_rank_is_told_and_can_be_told_to_forget_it(name: str, word: str) -> None:
    runtime, fault = up(), find_fault(name)
    probe(runtime, "armed", "set", PID, word, 9)
    probe(runtime, "armed", "clear", PID)
    stage = scene(runtime, parameters={"epoch": 9.0}, store=ledger(3))

    fault.inject(stage)
    assert stage.memo == {"pid": PID}
    fault.revert(scene(runtime, ranks=(), memo=stage.memo))

    assert fault.fires
    assert asked(runtime) == 2


@pytest.mark.parametrize(
    ("name", "epoch", "reached", "refused"),
    [
        ("exception-at-epoch", 4, 3, False),
        ("exception-at-epoch", 4, 4, True),
        ("nan-at-epoch", 5, 3, False),
        ("nan-at-epoch", 4, 3, True),  # the model would have to be spoilt before an epoch that trains already
        ("nan-at-epoch", 2, None, False),
    ],
)
def test_an_epoch_that_has_passed_is_refused(
    name: str, epoch: int, reached: int | None, refused: bool
) -> None:
    there = scene(up(), parameters={"epoch": float(epoch)}, store=ledger(reached))
    if refused:
        with pytest.raises(RefusedError, match=f"epoch {epoch}, .* {reached}"):
            find_fault(name).refuse(there)
    else:
        find_fault(name).refuse(there)


def test_a_late_command_is_refused_before_the_rank_is_told() -> None:
    runtime = up()
    with pytest.raises(RefusedError, match="too late"):
        find_fault(NAMES[0]).inject(scene(runtime, parameters={"epoch": 2.0}, store=ledger(5)))
    assert asked(runtime) == 0


def test_an_epoch_that_never_comes_is_refused() -> None:
    there = scene(up(), parameters={"epoch": 21.0}, store=ledger(3))
    with pytest.raises(RefusedError, match=r"epoch 21 .* 20"):
        find_fault(NAMES[0]).refuse(there)


def test_a_job_that_counts_steps_is_not_held_to_its_epochs() -> None:
    there = scene(up(), parameters={"epoch": 2100.0}, store=ledger(30, key="step"))
    find_fault(NAMES[0]).refuse(there)


def test_an_epoch_that_several_reports_have_is_the_ones_that_the_rank_waits_for() -> None:
    """Such a run is followed by its steps, of which it has made more than the fault's epoch."""
    store = ledger(3)
    common = {"schema": "ledger/1", "job": "j", "run": "r", "attempt": 1, "event": "report", "rank": 0}
    more = [{**common, "at": 10.0 + n, "metrics": {"epoch": 3}, "optimizer_steps": 50 + n} for n in range(3)]
    store.put(f"{LEDGER_PREFIX}/j/more.jsonl", "\n".join(map(json.dumps, more)).encode())
    find_fault(NAMES[0]).refuse(scene(up(), parameters={"epoch": 4.0}, store=store))
    with pytest.raises(RefusedError, match="job j has reported 3"):
        find_fault(NAMES[0]).refuse(scene(up(), parameters={"epoch": 3.0}, store=store))


def test_a_job_that_reports_no_epoch_is_refused() -> None:
    there = scene(up(), parameters={"epoch": 9.0}, store=ledger(3, key="accuracy"))
    with pytest.raises(RefusedError, match="job j reports no epoch"):
        find_fault(NAMES[0]).refuse(there)
