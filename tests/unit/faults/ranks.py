"""A scene with a rank for the faults of training processes."""

from __future__ import annotations

import json
from typing import Any

from lab.faults import RankProcess, Scene
from lab.services import worker
from lab.topology import LabSpec
from tests.fakes import FakeRuntime

W0 = worker(0)
PID = 4711


def up() -> FakeRuntime:
    """A lab that is up, with nothing in its journal."""
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(workers=2))
    runtime.host.journal.clear()
    return runtime


def scene(runtime: FakeRuntime, **options: Any) -> Scene:
    """Rank 0 of the job `j` runs on W0 in process PID."""
    options.setdefault("ranks", (RankProcess(0, W0, PID),))
    return Scene(runtime, W0, job="j", **options)


def probe(runtime: FakeRuntime, *arguments: object, problem: str = "", exit_code: int = 0) -> None:
    """Set the answer of `python -m raylab_faults.<arguments>` on W0."""
    module, *rest = map(str, arguments)
    answer = json.dumps({"pid": PID, "done": not problem, "problem": problem, "first": 9.0, "last": 9.1})
    output = f"a warning of Python\n{answer}\n"
    runtime.answer(W0, ["python", "-m", f"raylab_faults.{module}", *rest], output, exit_code)


def asked(runtime: FakeRuntime) -> int:
    """Return the number of commands that were run on a service."""
    return sum(call.method == "execute" for call in runtime.host.journal)
