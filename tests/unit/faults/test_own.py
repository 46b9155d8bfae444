"""Faults of one's own: from a file in the labs' folder to a receipt, and everything that can be wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli.main import main
from lab.errors import LabError, NotFoundError, RefusedError, ServiceError, UsageError
from lab.evidence.receipt import Verdict
from lab.faults import FAULTS, Scene, catalogue, effect_of, find_fault, problems
from lab.faults.own import FOLDER, MODULES_VARIABLE, load_own
from lab.flows.recovery.heal import heal
from lab.runtime.active_faults import ActiveFaults
from lab.topology import check_lab_name
from tests.conftest import ROOT
from tests.unit.flows.world import W0, Drill, Training

GUIDE = (ROOT / "docs" / "recovery.md").read_text(encoding="utf-8").partition("## A fault of your own")[2]
EXAMPLE = GUIDE.partition("```python\n")[2].partition("```")[0]
NAME, FILE = "spot-eviction", "spot_eviction.py"

Drop = Callable[..., Path]


@pytest.fixture
def drop(raylab_home: Path) -> Drop:
    """Puts a file into the folder of one's own faults."""

    def put(code: str, name: str = FILE) -> Path:
        folder = raylab_home / "faults"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / name
        path.write_text(code, encoding="utf-8")
        path.chmod(0o600)
        return path

    return put


def names() -> list[str]:
    return [kind.name for kind in catalogue()]


# The example of the guide


def test_the_example_of_the_guide_is_injected_and_judged(drop: Drop) -> None:
    assert FILE in GUIDE
    drop(EXAMPLE)
    world = Drill()
    Training(world)

    receipt = world.inject(kind=NAME, after_epoch=3, parameters={"grace": 1.0}).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.RECOVERED, receipt
    assert receipt.checks[1].detail.startswith(f"{W0} was evicted in attempt 1, after 3 checkpoints")
    document = receipt.fault
    assert (document.kind, document.parameters) == (NAME, {"grace": 1.0})
    assert effect_of(document) == "was evicted"
    assert ("stop", W0) in world.runtime.calls("stop")
    assert world.healthy()


def test_the_example_is_listed_last(drop: Drop) -> None:
    drop(EXAMPLE)
    assert names() == [*FAULTS, NAME]
    assert problems() == ()


def test_a_file_is_run_once_as_long_as_it_stays_the_same(drop: Drop) -> None:
    drop(EXAMPLE)
    first = type(find_fault(NAME))
    assert type(find_fault(NAME)) is first
    drop(EXAMPLE.replace("was evicted", "was taken"))
    assert find_fault(NAME).kind.traits.effect == "was taken"


def test_its_output_does_not_get_into_a_result(drop: Drop, capsys: pytest.CaptureFixture[str]) -> None:
    drop(EXAMPLE + "\nprint('hello')\n")
    assert NAME in names()
    assert capsys.readouterr() == ("", "hello\n")


def test_files_with_an_underscore_or_a_dot_and_other_files_are_not_loaded(drop: Drop) -> None:
    for name in ("_base.py", ".hidden.py", "notes.txt"):
        drop("raise RuntimeError", name)
    assert names() == list(FAULTS)
    assert problems() == ()


def test_a_module_is_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raylab_test_faults.py").write_text(EXAMPLE, encoding="utf-8")
    (tmp_path / "raylab_test_faults.py").chmod(0o600)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    monkeypatch.setenv(MODULES_VARIABLE, "raylab_test_faults, raylab_no_such.module")
    assert names() == [*FAULTS, NAME]
    (problem,) = problems()
    assert isinstance(problem, NotFoundError)
    assert "raylab_no_such.module" in problem.message


# Broken files


BROKEN = {
    "does not parse": ("def (", UsageError, "SyntaxError"),
    "does not import": ("import nowhere_at_all", UsageError, "nowhere_at_all"),
    "names its line": ("x = 1\ny = x / 0", UsageError, "ZeroDivisionError: division by zero (line 2)"),
    "wants to end labctl": ("raise SystemExit(3)", UsageError, "SystemExit"),
    "holds no fault": ("x = 1", UsageError, "it defines no subclass of Fault"),
    "has no kind": (EXAMPLE.replace("    kind =", "    sort ="), UsageError, "SpotEviction has no `kind`"),
    "has another kind": (re.sub(r"kind = FaultKind\(.*?\n    \)\n", "kind = 5\n", EXAMPLE, flags=re.S),
        UsageError, "is not a FaultKind"),
    "lacks inject": (EXAMPLE.replace("def inject", "def hurt"), UsageError, "lacks the method inject"),
    "has a bad name": (EXAMPLE.replace('"spot-eviction"', '"Spot Eviction"'), UsageError, "not a valid name"),
    "says nothing": (EXAMPLE.replace('"was evicted"', '" "'), UsageError, "traits.effect is empty"),
    "has no scope": (EXAMPLE.replace("Scope.NODE", '"node"'), UsageError, "expected Scope, not 'node'"),
    "lacks a field": (EXAMPLE.replace("expected=Expected.NODE_LOST,", ""), UsageError, "expected"),
    "is out of bounds": (EXAMPLE.replace("default=2.0", "default=99.0"), UsageError, "grace=99"),
    "delays by nothing": (EXAMPLE.replace("ends_node=True", 'delay="x"'), UsageError, "no parameter 'x'"),
    "needs an argument": (EXAMPLE + "\n    def __init__(self, x): ...\n", UsageError, "TypeError"),
    "takes a name": (EXAMPLE.replace('"spot-eviction"', '"kill"'), UsageError, "a fault 'kill' already"),
    "is empty": ("", NotFoundError, "is empty"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "error", "said"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_file_is_named_and_the_others_work(
    drop: Drop, code: str, error: type[LabError], said: str
) -> None:
    path = drop(code)
    drop(EXAMPLE.replace("spot-eviction", "other"), "other.py")
    assert names() == [*FAULTS, "other"]
    (problem,) = problems()
    assert type(problem) is error
    assert problem.message.startswith(str(path))
    assert said in problem.message
    assert find_fault("kill").kind.name == "kill"
    with pytest.raises(error, match=re.escape(problem.message)):
        find_fault(NAME)


def test_of_two_with_one_name_the_first_counts(drop: Drop) -> None:
    drop(EXAMPLE, "a.py")
    second = drop(EXAMPLE, "b.py")
    assert names() == [*FAULTS, NAME]
    assert list(load_own(FAULTS).problems) == [str(second)]


def test_a_file_that_others_may_write_to_is_not_run(drop: Drop, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = drop(f"open({str(seen)!r}, 'w')")
    for broken, mode in ((path, 0o620), (path, 0o602), (path.parent, 0o770)):
        before = broken.stat().st_mode
        broken.chmod(mode)
        (problem,) = problems()
        assert isinstance(problem, RefusedError)
        assert str(broken) in problem.message
        broken.chmod(before)
    assert not seen.exists()


def test_a_file_of_somebody_else_is_not_run(drop: Drop, monkeypatch: pytest.MonkeyPatch) -> None:
    path = drop(EXAMPLE)
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    own = load_own(FAULTS)
    assert own.faults == {}
    assert isinstance(own.problems[str(path)], RefusedError)


def test_the_command_lists_the_others_and_warns(drop: Drop, capsys: pytest.CaptureFixture[str]) -> None:
    path = drop("x = 1")
    assert main(["fault-inject", "--list"]) == 0
    out, err = capsys.readouterr()
    assert "kill: " in out
    assert f"warning: {path}" in err
    assert "Traceback" not in err


def test_no_lab_can_have_the_name_of_their_folder() -> None:
    with pytest.raises(UsageError) as caught:
        check_lab_name(FOLDER)
    assert "faults of one's own" in caught.value.hint


def test_an_error_of_its_own_is_a_problem_of_the_receipt_and_no_bug_of_labctl(drop: Drop) -> None:
    path = drop(EXAMPLE.replace("scene.runtime.stop(", "scene.runtime.stopp("))
    world = Drill()
    Training(world)

    receipt = world.inject(kind=NAME, after_epoch=3).receipt

    assert receipt is not None
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert f"{path} failed in `inject`: AttributeError" in receipt.problems[0]
    assert world.healthy()
    with pytest.raises(ServiceError, match=r"\(line 21\)"):
        find_fault(NAME).inject(Scene(world.runtime, W0, parameters={"grace": 1.0}))


# A fault that another labctl has to undo


def test_heal_finds_it_again_and_says_when_its_file_is_gone(
    drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.flows.recovery.revert.TRIES", 1)
    path = drop(EXAMPLE)
    world = Drill()
    Training(world)
    world.host.failures["raylab", W0] = ServiceError("it does not start")
    world.inject(kind=NAME, after_epoch=3)
    active = ActiveFaults(world.runtime.folder())
    assert [fault.source for fault in active.left()] == [str(path)]

    path.unlink()
    (healed,) = heal(world.lab)
    assert healed.problem == f"the file of this fault is gone, {path}: put it back"
    path.write_text("x = 1")
    path.chmod(0o600)
    (healed,) = heal(world.lab)
    assert "holds no fault" in healed.problem
    drop(EXAMPLE)
    (healed,) = heal(world.lab)
    assert healed.problem == ""
    assert world.healthy()
    assert active.lasting() == ()
