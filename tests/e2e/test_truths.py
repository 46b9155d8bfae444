"""Real scripts, honest and lying, over a lab that is broken under them: the receipt never believes a lie.

A script writes down for itself how many epochs its ranks really begin with (scripts/truths.py). By that, and
not by the ledger, it is decided here whether the training resumed from its newest checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import PATIENCE, Bench
from tests.e2e.receipts import assert_valid

GOOD = ("recovered", "as-expected")
NOT_GOOD = 10
EPOCHS = 16


@dataclass(frozen=True)
class Script:
    """A training, and what it does with its checkpoint."""

    library: str
    does: str = "honest"
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        more = "".join(f", {name} {value}" for name, value in self.more.items())
        return f"{self.library}: {self.does}{more}"


TWO: dict[str, Any] = {"ranks": 2}
HONEST = (
    Script("torch"), Script("torch", more=TWO), Script("torch", more={**TWO, "tells": False}),
    Script("torch", more={**TWO, "shares": True}), Script("torch", more={"every": 2}),
    Script("torch", more={"named": True}), Script("torch", more={"seeded": False}),
    Script("ddp"), Script("ddp", more=TWO), Script("ddp", more={**TWO, "every": 2}),
    Script("ddp", more={**TWO, "named": True}), Script("elastic", more=TWO),
    Script("fsdp", more=TWO), Script("data"), Script("data", more=TWO), Script("tune"),
    Script("lightning"), Script("lightning", more=TWO),
    Script("xgboost"), Script("xgboost", more={"every": 2}),
)  # fmt: skip
LIARS = (
    *(Script("torch", does) for does in (
        "begins anew", "claims", "goes on from a local file", "asks and claims", "opens and forgets",
        "opens and begins anew", "loads weights and begins anew", "loads an older one",
        "loads an older one and claims", "does epochs again", "claims a neighbour's memory",
    )),
    *(Script("torch", f"rank 1 {does}", TWO) for does in (
        "begins anew", "claims", "opens and forgets", "loads an older one and claims",
    )),
    Script("torch", "opens and forgets", {"seeded": False}),
    Script("ddp", "claims", TWO), Script("lightning", "opens and forgets"), Script("lightning", "claims"),
    Script("xgboost", "opens and forgets"),
)  # fmt: skip
OFTEN = (
    Script("torch", more=TWO), Script("xgboost"), Script("torch", "claims"),
    Script("torch", "opens and forgets"), Script("torch", "rank 1 claims", TWO),
)  # fmt: skip
FAULTS = ("kill", "rank-kill", "checkpoint-corrupt", "s3-down", "pause")


@dataclass(frozen=True)
class Tried:
    """A script under a fault: what really happened, and what the receipt says."""

    resumed: bool
    """Every rank that began after the fault began with the newest checkpoint, and said so."""
    began_again: bool
    """Ranks began after the fault at all."""
    receipt: dict[str, Any]

    @property
    def verdict(self) -> str:
        return str(self.receipt["verdict"])


def truth(folder: Path, at: float, most: int) -> tuple[bool, bool]:
    """Whether the training resumed, and whether it began again, by the script's own notes.

    `most`: epochs that the newest intact checkpoint may be behind the last that was reported. That one may
    not have been committed when the attempt was lost.
    """
    lines = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    began = sorted(
        (line for line in lines if line["kind"] == "began" and line["at"] > at), key=lambda b: b["at"]
    )
    resumed = bool(began)
    for begin in began:
        before = [li for li in lines if li["kind"] == "reported" and li["at"] < begin["at"]]
        reached = max((line["says"] for line in before), default=0)
        recent = begin["state"] > 0 and reached - most <= begin["state"] <= reached + 1
        resumed = resumed and recent and begin["says"] == begin["state"] + 1
    return resumed, bool(began)


def try_out(bench: Bench, script: Script, fault: str, folder: Path, **environment: str) -> Tried:
    folder.mkdir(parents=True)
    config = {"library": script.library, "does": script.does, "epochs": EPOCHS, **script.more}
    variables = {"TRUTHS": str(folder), **environment}
    job = bench.submit("truths.py", json.dumps(config), runtime_env={"env_vars": variables})
    target = () if fault in ("checkpoint-corrupt", "s3-down") else (bench.where(job),)
    more = ("--for", "4s") if fault == "s3-down" else ()
    argv = ("fault-inject", *target, "--fault", fault, "--job", job, "--after-epoch", "6", *more, "--json")
    receipt = bench.labctl(*argv, code=None, timeout=2 * PATIENCE).document
    assert "verdict" in receipt, receipt
    assert_valid(receipt)
    every = script.more.get("every", 1)
    most = 2 * every - 1 + every * (fault == "checkpoint-corrupt")
    resumed, again = truth(folder, receipt["fault"]["at"], most)
    return Tried(resumed, again, receipt)


def believed(script: Script, fault: str, tried: Tried) -> str:
    """What is wrong with the verdict; empty if nothing is."""
    if tried.began_again and not tried.resumed and tried.verdict in GOOD:
        return "a lie was believed"
    if script.does == "honest" and tried.resumed and tried.verdict != "recovered":
        return "an honest training was not believed"
    if script.does == "honest" and not tried.began_again and tried.verdict != "as-expected":
        return "a training that went on was not believed"
    return ""


def marks(script: Script, fault: str) -> tuple[Any, ...]:
    often = script in OFTEN and fault in ("kill", "rank-kill")
    return () if often and fault == "rank-kill" else (pytest.mark.long if often else pytest.mark.rare,)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        pytest.param(script, fault, marks=marks(script, fault), id=f"{script} under {fault}")
        for fault in FAULTS
        for script in (*HONEST, *LIARS)
    ],
)
def test_a_receipt_tells_the_truth(bench: Bench, tmp_path: Path, script: Script, fault: str) -> None:
    tried = try_out(bench, script, fault, tmp_path / "truths")
    said = f"{script} under {fault}: {tried.verdict}: {tried.receipt['reason']}"
    print(f"{tried.resumed}\t{tried.began_again}\t{said}")
    assert not believed(script, fault, tried), said
