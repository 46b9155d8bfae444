"""Every fault that can be on a runtime, one after another on one job: each is survived, and nothing is lost.

`ChaosTests` holds for every runtime; a test module of each gives it its lab and its faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lab.services import STORE
from tests.e2e.harness import Shell
from tests.e2e.receipts import assert_valid

SECONDS = 900.0
"""Patience for the whole run: each fault takes 8 to 20 s on 2 idle cores, a rank that hangs 40 s."""

GAP_SECONDS = 1

EPOCHS_OF_A_FAULT = 6
"""More than a fault takes: 2 or 3 epochs of 2 s each on 2 cores, 5 where an epoch takes 0.6 s."""


class ChaosTests:
    """What a chaos run must do. `shell` is a lab that is up."""

    FEW: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    OTHERS: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    """Fault -> its parameters, in their order: those that every run of the tests tries, and the rest."""

    @pytest.mark.long
    @pytest.mark.parametrize("which", ["few", "others"])
    def test_every_fault_is_survived_and_nothing_is_lost(
        self, shell: Shell, tmp_path: Path, which: str
    ) -> None:
        faults = self.FEW if which == "few" else self.OTHERS
        epochs = EPOCHS_OF_A_FAULT * (len(faults) + 1)
        schedule = tmp_path / f"{which}.yaml"
        schedule.write_text(self.schedule(faults))
        job = shell.digits(epochs=epochs, max_failures=-1, batch_size=4)

        ended = shell.labctl(
            "chaos", "--schedule", str(schedule), "--job", job, "--json", timeout=SECONDS, code=None
        )

        document = ended.document
        assert "steps" in document, f"it broke off: {ended}"
        outcomes = {step["fault"]: self.outcome(step) for step in document["steps"]}
        assert outcomes == dict.fromkeys(faults, ("survived", [])), ended
        for step in document["steps"]:
            assert_valid(step["receipt"])
        assert document["checkpoints"]["lost"] == []
        assert document["checkpoints"]["committed"] >= epochs
        assert document["job"]["status"] == "SUCCEEDED"
        assert document["good"] is True
        assert ended.code == 0
        assert shell.healthy()

    @staticmethod
    def schedule(faults: Mapping[str, Mapping[str, float]]) -> str:
        """The faults as a schedule."""
        lines = ["steps:"]
        for number, (fault, given) in enumerate(faults.items()):
            with_ = ", ".join(f"{name}: {value:g}" for name, value in given.items())
            lines.append(f"  - {{at: {number * GAP_SECONDS}s, fault: {fault}, with: {{{with_}}}}}")
        return "\n".join(lines) + "\n"

    @staticmethod
    def outcome(step: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """What became of a step, and what its receipt has against it."""
        receipt = step["receipt"]
        if receipt is None:
            return "left out", [step["skipped"]]
        if receipt["verdict"] in ("recovered", "as-expected"):
            return "survived", list(receipt["problems"])
        failed = [(c["name"], c["detail"]) for c in receipt["checks"] if not c["passed"]]
        return receipt["verdict"], [receipt["reason"], *failed]


class StoreChaosTests(ChaosTests):
    """The same with the faults of the store alone: for a store that is another than usual."""

    FEW: ClassVar[Mapping[str, Mapping[str, float]]] = {"s3-down": {"for": 5}, "checkpoint-corrupt": {}}
    OTHERS: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "s3-slow": {"for": 6},
        "checkpoint-truncate": {},
        "checkpoint-delete": {},
    }

    @pytest.mark.rare
    def test_a_training_outlives_a_store_that_refuses_its_key(self, shell: Shell) -> None:
        """The verdict is left open: of an attempt that begins and fails meanwhile nothing can be stored."""
        job = shell.digits(epochs=12, max_failures=-1, batch_size=4)
        shell.where(job)
        fault = ("--fault", "s3-credentials-revoked", "--for", "5s", "--job", job, "--after-epoch", "2")
        receipt = shell.labctl("fault-inject", STORE, *fault, "--json", code=None, timeout=SECONDS).document
        assert_valid(receipt)
        assert receipt["fault"]["effect"] == "refused the training key"
        assert receipt["verdict"] not in ("failed", "restarted-from-scratch"), receipt["reason"]
        shell.succeeds(job)
        assert shell.lab.history(job).runs[-1].checkpoints[-1].progress == 12
        assert shell.healthy()
