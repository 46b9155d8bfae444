"""Streams that cannot be written to: stdout decides the exit code, stderr does not."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator

import pytest

from lab.cli.main import BROKEN_PIPE, main
from lab.errors import OutputError

COMMANDS = [
    ("fault-inject", "--list"),
    ("fault-inject", "--list", "--json"),
    ("--help",),
    ("--version",),
    ("self", "completion", "bash"),
]
FULL = OSError(28, "No space left on device")


class Broken(io.StringIO):
    """Takes nothing: at once, or, as a buffered stream does, when it is flushed."""

    encoding = "utf-8"

    def __init__(self, error: OSError, *, late: bool) -> None:
        super().__init__()
        self._error, self._late, self._kept = error, late, 0

    def write(self, text: str) -> int:
        if not self._late:
            raise self._error
        self._kept += len(text)
        return len(text)

    def flush(self) -> None:
        if self._kept:
            raise self._error


@pytest.fixture(params=[False, True], ids=["at once", "late"])
def full(request: pytest.FixtureRequest) -> Broken:
    return Broken(FULL, late=request.param)


@pytest.fixture(autouse=True)
def streams() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    yield
    sys.stdout, sys.stderr = before


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_result_that_is_lost_is_told_and_has_its_exit_code(
    full: Broken, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    assert main(arguments) == OutputError.exit_code
    assert capsys.readouterr().err == (
        "error: cannot write to stdout: No space left on device\n"
        "  -> what was done is done; only its output is lost\n"
    )


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_reader_that_goes_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(BrokenPipeError(32, "Broken pipe"), late=False))
    assert main(arguments) == BROKEN_PIPE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_closed_stdout_is_a_lost_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(arguments) == OutputError.exit_code
    assert "cannot write to stdout: Bad file descriptor" in capsys.readouterr().err


def test_an_error_in_json_that_is_lost_is_still_told_on_stderr(
    full: Broken, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    assert main(["nosuch", "--json"]) == OutputError.exit_code
    assert "error: no such command 'nosuch'" in capsys.readouterr().err


@pytest.mark.parametrize("gone", [True, False], ids=["closed", "full"])
@pytest.mark.parametrize(
    ("arguments", "code"), [(["fault-inject", "--list", "--json"], 0), (["nosuch", "--json"], 2)]
)
def test_stderr_that_is_lost_changes_nothing(
    full: Broken,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    gone: bool,
    arguments: list[str],
    code: int,
) -> None:
    monkeypatch.setattr(sys, "stderr", None if gone else full)
    assert main(arguments) == code
    assert ("error" in json.loads(capsys.readouterr().out)) is (code != 0)


def test_with_both_lost_the_exit_code_remains(full: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["nosuch"]) == 2
    assert main(["fault-inject", "--list"]) == OutputError.exit_code


def test_the_streams_are_given_back() -> None:
    before = sys.stdout, sys.stderr
    main(["--version"])
    assert (sys.stdout, sys.stderr) == before
