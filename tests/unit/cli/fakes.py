"""labctl on a lab in memory, and what its flows answer, for the tests of the command line."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import create_autospec

import pytest
from click.testing import CliRunner, Result

from lab.api.receipt import (
    AttemptDocument,
    CheckDocument,
    CheckpointProof,
    ExpectedDocument,
    FaultDocument,
    JobDocument,
    ReceiptDocument,
    Timeline,
)
from lab.cli.context import App
from lab.cli.main import cli
from lab.cluster.job_logs import lines_of
from lab.cluster.jobs import Job
from lab.cluster.queues import Queues
from lab.evidence.receipt import FaultRecord, Verdict
from lab.evidence.receipt.expected import Expected
from lab.faults import Traits
from lab.flows.recovery import Moment
from lab.lab import Lab
from lab.topology import GpuPlan, LabSpec, Vendor
from tests.unit.data.stories import CHECKS
from tests.unit.fakes import AT, FakeJobs, FakeLab

SERVICES = ("minio", "ray-head", "queue", "jupyter", "ray-worker-0", "ray-worker-1")
PLAN = GpuPlan(Vendor.NONE, (), "no GPU here")
"""The GPUs of every lab that is started."""


FAULT = FaultRecord("kill", "ray-worker-0", "aa", AT, AT + 4.25, traits=Traits("was killed", ends_node=True))


def receipt(verdict: str = "recovered", *, failing: str = "") -> ReceiptDocument:
    """A receipt of a kill; the check called `failing` has not passed."""
    sha = "3f" * 32
    return ReceiptDocument(
        verdict=Verdict(verdict),
        reason="every check passed" if verdict == "recovered" else "it never called get_checkpoint",
        fault=FaultDocument(
            kind="kill",
            target="ray-worker-0",
            effect="was killed",
            at=AT,
            reverted_at=AT + 4.25,
            parameters={},
        ),
        expected=ExpectedDocument(Expected.NODE_LOST.value, Expected.NODE_LOST.text),
        timeline=Timeline(0.9, 1.0, 2.6, 3.4, 3.6, 4.1, None),
        checkpoint=CheckpointProof("s3://ray/job-1/checkpoint_000004", 5, sha, sha),
        attempts=(
            AttemptDocument(1, ("ray-worker-0",), 1, 6, AT - 20, AT + 1),
            AttemptDocument(2, ("ray-worker-1",), 6, 20, AT + 2.6, AT + 31.6),
        ),
        lost_epochs=1,
        job=JobDocument("job-1", "SUCCEEDED", None),
        world_size=(),
        breakdown=None,
        control=None,
        checks=tuple(CheckDocument(name, name != failing, f"detail of {name}") for name in CHECKS),
        run="run-1",
        epoch_key="epoch",
        problems=(),
    )


MOMENTS = (
    Moment("waiting", None, "waiting for a complete checkpoint in job job-1"),
    Moment("fault", 0.0, "kill ray-worker-0"),
    Moment("node_dead", 0.9, "Ray declares the node dead"),
    Moment("first_report", 4.1, "reports epoch 6"),
    Moment("progress 7", 5.0, "epoch 7/20"),
    Moment("job_finished", 31.0, "job job-1: SUCCEEDED"),
)


class FollowedJobs(FakeJobs):
    """Jobs whose log is all there is when it is followed, whatever becomes of them."""

    interrupt: BaseException | None = None
    """Raised at the end of a log that is followed."""

    def follow(
        self, submission_id: str, on_poll: Callable[[Job], None] = lambda _: None, **more: Any
    ) -> Iterator[str]:
        on_poll(self.get(submission_id))
        yield from lines_of(self.logs(submission_id))
        if self.interrupt is not None:
            raise self.interrupt


SPECS: dict[Any, Any] = {}
"""Function -> its stub: to make one takes longer than most of the tests that use it."""


class Labctl(FakeLab):
    """Runs command lines on a lab that is up."""

    jobs: FollowedJobs

    def __init__(self, patch: pytest.MonkeyPatch, home: Path) -> None:
        super().__init__(jobs=FollowedJobs())
        self.env: dict[str, str | None] = {"RAYLAB_NAME": None, "RAYLAB_RUNTIME": None}
        self.opened: list[tuple[str, str]] = []
        """Runtime and name of each lab that was opened."""
        self.runtime.up(LabSpec(gpu=PLAN))
        self.runtime.host.journal.clear()
        self._patch = patch
        none = Queues("", "")  # a lab without a controller of queues
        self._use(Lab(self.runtime, api=self.api, jobs=self.jobs, store=self.store, queues=none))
        patch.setenv("RAYLAB_HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        self.gpu_plan = self.stub("lab.runtime.spec.gpu_plan", PLAN)
        self.stub("lab.flows.doctor.gather_facts")
        self.stub("lab.flows.doctor.resource_warnings", ())
        self.stub("waiting_jobs", {})

    def _use(self, lab: Lab) -> None:
        self.lab = lab
        self.lab.why = "auto: no Docker Engine answers"

    def down(self) -> Labctl:
        """Take the lab down."""
        self.runtime.down()
        self.runtime.host.journal.clear()
        self._use(Lab(self.runtime))
        return self

    def stub(self, name: str, answer: Any = None) -> Any:
        """Let a function, or a method of the lab, give this answer; an exception is raised. Has its calls."""
        where, _, function = name.rpartition(".")
        owner = importlib.import_module(where) if where else self.lab
        stub = getattr(owner, function)
        if not hasattr(stub, "side_effect"):
            function_of = getattr(stub, "__func__", stub)  # a method is the same in all labs
            if function_of not in SPECS:
                SPECS[function_of] = create_autospec(stub)
            stub = SPECS[function_of]
            stub.reset_mock()
            self._patch.setattr(owner, function, stub)
        stub.side_effect = answer if isinstance(answer, BaseException) or callable(answer) else None
        stub.return_value = answer
        return stub

    def changes(self) -> list[str]:
        """The calls that changed something of the lab, such as `stop ray-worker-0`."""
        return [" ".join(call) for call in self.runtime.calls("up", "down", "stop", "start", "kill")]

    def __call__(self, *args: str, input: str | None = None) -> Result:
        """One command line."""
        app = App(self._open, self.runtime.clock)
        return CliRunner().invoke(cli, args, obj=app, env=self.env, input=input)

    def _open(self, runtime: str, name: str) -> Lab:
        self.opened.append((runtime, name))
        return self.lab

    def ok(self, *args: str) -> str:
        """The stdout of a command line that succeeds."""
        result = self(*args)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        """The one JSON document that a command line with --json prints."""
        result = self(*args, "--json")
        assert result.exit_code == code, result.output
        return cast("dict[str, Any]", json.loads(result.stdout))
