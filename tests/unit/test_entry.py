"""labctl.py: what it tells a Python that does not fit, and whom it hands over to."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lab.errors import INTERRUPTED, SetupError, UsageError
from lab.host import environment

ENTRY = Path(environment.ROOT) / "labctl.py"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """labctl.py handles signals for the whole process."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delenv("LABCTL_NO_VENV", raising=False)
    module = ModuleType("labctl")
    module.__file__ = str(ENTRY)
    exec(compile(ENTRY.read_text(), str(ENTRY), "exec"), module.__dict__)
    monkeypatch.setattr(sys, "argv", ["labctl.py", "up", "--json"])
    return module


def python(monkeypatch: pytest.MonkeyPatch, *version: int) -> None:
    monkeypatch.setattr(sys, "version_info", version)


def test_its_syntax_is_read_by_old_pythons() -> None:
    source = ENTRY.read_text(encoding="ascii")
    tree = ast.parse(source, feature_version=(3, 6))
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.JoinedStr, ast.AnnAssign, ast.Starred, ast.NamedExpr))
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert not any(argument.annotation for argument in node.args.args)
            assert not node.args.kwonlyargs
        if isinstance(node, ast.ImportFrom):
            assert node.module in ("lab.host", "lab.errors"), "only after the version is known to fit"


def test_its_exit_codes_are_those_of_the_table(entry: ModuleType) -> None:
    assert (SetupError.exit_code, INTERRUPTED) == (entry.SETUP_FAILED, entry.INTERRUPTED)


@pytest.mark.parametrize(
    ("version", "no_venv", "problem"),
    [
        ((2, 7), False, "too old"),
        ((3, 9), False, "too old"),
        ((3, 9), True, "too old"),
        ((3, 10), False, ""),
        ((3, 13), False, ""),
        ((3, 14), False, "too new: Ray has no package for it"),
        ((3, 14), True, ""),
    ],
)
def test_which_pythons_fit(entry: ModuleType, version: tuple[int, int], no_venv: bool, problem: str) -> None:
    assert entry.wrong_python(version, no_venv) == problem


def test_a_python_that_is_too_old_is_named_with_its_path_and_a_better_one(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python(monkeypatch, 3, 8, 18)
    monkeypatch.setattr(entry, "runs", lambda name: name in ("python3.11", "python3.10"))
    assert entry.main() == SetupError.exit_code
    out, err = capsys.readouterr()
    assert f"Python 3.8.18 ({sys.executable}) is too old; 3.10 to 3.13 is needed" in err
    assert "python3.11 labctl.py up --json" in err
    assert json.loads(out)["error"]["exit_code"] == SetupError.exit_code


def test_without_a_better_python_the_hint_still_shows_how_to_call_one(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python(monkeypatch, 3, 14, 0)
    monkeypatch.setattr(entry, "runs", lambda name: False)
    assert entry.main() == SetupError.exit_code
    assert "/path/to/python3.12 labctl.py" in capsys.readouterr().err


def test_a_launcher_that_does_not_run_is_not_recommended(entry: ModuleType, tmp_path: Path) -> None:
    broken = tmp_path / "python3.13"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    assert not entry.runs(str(broken))
    assert not entry.runs(str(tmp_path / "absent"))
    assert entry.runs(sys.executable)


def test_it_hands_its_arguments_to_the_environments_python(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[tuple[str, list[str]]] = []

    def hand_over(python: str, arguments: list[str]) -> int:
        handed.append((python, arguments))
        return 7

    monkeypatch.setattr(environment, "interpreter", lambda: "/venv/python")
    monkeypatch.setattr(environment, "hand_over", hand_over)
    assert entry.main() == 7
    assert handed == [("/venv/python", [str(ENTRY), "up", "--json"])]


def test_in_the_right_interpreter_it_runs_lab_cli_itself(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(environment, "interpreter", lambda: None)
    monkeypatch.setattr("runpy.run_module", lambda name, **_: ran.append(name))
    assert entry.main() == 0
    assert ran == ["lab.cli"]


def test_windows_itself_is_told_to_use_wsl_in_one_line(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "os", SimpleNamespace(name="nt", fstat=os.fstat, dup2=os.dup2))
    assert entry.main() == SetupError.exit_code
    assert "wsl --install" in capsys.readouterr().err


def failing(error: BaseException) -> Callable[[], str | None]:
    def interpreter() -> str | None:
        raise error

    return interpreter


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SetupError("no network", "plug it in"), 12, "error: no network\n  -> plug it in\n"),
        (UsageError("an empty name", "name it"), 2, "error: an empty name\n  -> name it\n"),
        (KeyboardInterrupt(), 130, "error: interrupted; the next run continues where this one stopped\n"),
    ],
)
def test_a_set_up_that_does_not_end_well_is_told_without_a_traceback(
    entry: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(environment, "interpreter", failing(error))
    assert entry.main() == code
    out, err = capsys.readouterr()
    assert err == said
    assert json.loads(out)["error"]["exit_code"] == code


def test_an_interrupt_while_modules_are_imported_ends_it_at_once(
    entry: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Left(BaseException):
        """Stand in for the end of the process."""

    def left(code: int) -> None:
        raise Left(code)

    def imported(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(environment, "interpreter", lambda: None)
    monkeypatch.setattr("runpy.run_module", imported)
    monkeypatch.setattr("os._exit", left)
    with pytest.raises(Left, match="130"):
        entry.main()
    out, err = capsys.readouterr()
    assert (json.loads(out)["error"]["exit_code"], err) == (130, "error: interrupted\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_during_the_set_up_ends_what_it_runs_first(
    entry: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
) -> None:
    ended: list[bool] = []

    def interpreter() -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            ended.append(True)
            raise

    signal.signal(number, signal.default_int_handler)  # whatever it was, as under nohup
    monkeypatch.setattr(environment, "interpreter", interpreter)
    assert (entry.main(), ended) == (code, [True])
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code


def test_what_is_ignored_stays_ignored(entry: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "interpreter", lambda: "/venv/python")
    monkeypatch.setattr(environment, "hand_over", lambda *_: 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    entry.main()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_keep_it_from_saying_what_is_wrong(closed: str, tmp_path: Path) -> None:
    """Run in a process: descriptors are those of the whole one."""
    script = (
        "import runpy, sys; sys.version_info = (3, 9, 0); sys.argv = ['labctl.py', '--json'];"
        f"runpy.run_path({str(ENTRY)!r}, run_name='__main__')"
    )
    called = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, script],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        executable="/bin/sh",
    )
    assert called.returncode == SetupError.exit_code
    assert "Traceback" not in called.stderr
