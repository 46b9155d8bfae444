"""Every error is two lines, an exit code, and with --json a document."""

from __future__ import annotations

import json
import sys

import pytest

from lab import errors
from lab.cli import main as entry
from lab.cli.context import App
from lab.cli.format import harmless
from lab.cli.output import Output
from lab.cli.render import table
from lab.errors import INTERRUPTED, LabError
from lab.ext.course.documents import CheckRecord
from lab.host import command
from lab.host.environment import ElsewhereError
from lab.host.wrapping import CONTINUED, wrapped
from tests.unit.cli.fakes import Labctl

FULL_DISK = (
    "installing cli and local needs 3.0 GB, and /home/somebody/raylab has 1.20 GB free: no room for it"
)

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, LabError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_is_two_lines_and_its_exit_code(labctl: Labctl, kind: type[LabError]) -> None:
    labctl.stub("up", kind("it broke", "mend it"))
    result = labctl("up", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (
        kind.exit_code,
        "",
        "error: it broke\n  -> mend it\n",
    )


@pytest.mark.parametrize("kind", CLASSES)
def test_with_json_an_error_is_a_document_on_stdout(labctl: Labctl, kind: type[LabError]) -> None:
    labctl.stub("up", kind("it broke", "mend it"))
    assert labctl.json("up", code=kind.exit_code) == {
        "error": {
            "code": kind.__name__,
            "exit_code": kind.exit_code,
            "message": "it broke",
            "hint": "mend it",
        }
    }


LONG = "x" * 130_000


@pytest.mark.parametrize("value", [LONG, "x " * 65_000, "x\n" * 65_000, f"a={LONG}"], ids=len)
@pytest.mark.parametrize(
    "line",
    [
        ["--lab", "{}", "status"],
        ["{}"],
        ["status", "--{}"],
        ["up", "--port", "{}"],
        ["up", "--gpu", "{}"],
        ["up", "--workers", "{}"],
        ["logs", "{}"],
        ["submit", "{}"],
        ["submit", "digits", "-p", "{}"],
        ["submit", "--job-name", "{}", "digits"],
        ["fault-inject", "--fault", "{}", "--after", "{}"],
        ["lesson", "run", "{}"],
        ["lesson", "data", "rm", "{}"],
        ["images", "load", "{}"],
    ],
    ids=" ".join,
)
def test_an_error_does_not_repeat_a_value_of_any_length(labctl: Labctl, line: list[str], value: str) -> None:
    words = [word.replace("{}", value) for word in line]
    result = labctl(*words)
    assert result.exit_code not in (0, 1)
    assert result.stderr.startswith("error: ")
    assert len(result.stderr) < 8_000
    assert len(labctl(*words, "--json").stdout) < 16_000


def test_no_two_classes_share_an_exit_code() -> None:
    codes = [kind.exit_code for kind in CLASSES]
    assert len(codes) == len(set(codes)) >= 16


def test_an_error_without_a_hint_is_one_line(labctl: Labctl) -> None:
    labctl.stub("up", LabError("it broke"))
    assert labctl("up", "--quiet").stderr == "error: it broke\n"


def test_the_traceback_is_shown_only_with_verbose(labctl: Labctl) -> None:
    labctl.stub("up", LabError("it broke", "mend it"))
    assert "Traceback" not in labctl("up").stderr
    assert "Traceback" in labctl("up", "--verbose").stderr


def test_external_commands_are_echoed_with_verbose(labctl: Labctl) -> None:
    def runs(*_: object, **__: object) -> int:
        command.run(["true", "a b"], timeout=60)
        return 0

    labctl.stub("tests.run.run_tests", runs)
    assert labctl("test", "--verbose").stderr == "$ true 'a b'\n"
    assert labctl("test").stderr == ""
    assert not command.log.handlers


def test_an_option_without_its_value_names_its_commands_help(labctl: Labctl) -> None:
    assert "`labctl submit --help`" in labctl("submit", "digits", "-p").stderr


def test_an_unexpected_exception_is_a_bug_of_labctl(labctl: Labctl) -> None:
    labctl.stub("up", ZeroDivisionError("by zero"))
    result = labctl("up", "--quiet")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: labctl has a bug: ZeroDivisionError: by zero\n  -> ")
    assert "--verbose" in result.stderr
    assert "Traceback" in labctl("up", "--verbose").stderr
    assert labctl.json("up", code=1)["error"]["exit_code"] == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "no such command 'nonsense'"),
        (["up", "--nonsense"], "no such option '--nonsense'"),
        (["submit", "digits", "-p", "lr=1", "more"], "got unexpected extra argument (more)"),
        (["up", "--gpu", "voodoo"], "'voodoo' is not one of"),
        (["--runtime", "k8s", "status"], "'k8s' is not one of 'local', 'compose', 'class', 'auto'"),
        (["logs"], "missing argument 'SERVICE'"),
        (["self", "completion"], "missing argument '{bash|zsh|fish}'"),
        (["up", "--workers", "x"], "'x' is not a valid integer"),
        (["status", "now"], "unexpected extra argument"),
    ],
)
def test_usage_errors_have_the_same_form(labctl: Labctl, arguments: list[str], complaint: str) -> None:
    result = labctl(*arguments)
    message, hint = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert message.startswith("error: ")
    assert complaint in message
    assert hint.startswith("  -> ")
    assert "--help`" in hint
    assert complaint in labctl.json(*arguments, code=2)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--epochs", "60"], "--epochs"),
        (["--epochs=60"], "--epochs"),
        (["-p", "lr=1", "epochs=60"], "epochs=60"),
    ],
)
def test_a_parameter_of_a_recipe_without_p_is_explained(
    labctl: Labctl, arguments: list[str], wrong: str
) -> None:
    error = labctl.json("submit", "digits", *arguments, code=2)["error"]
    assert error["message"] == f"{wrong}: a parameter of a recipe is set with -p"
    assert error["hint"] == "labctl submit RECIPE -p epochs=VALUE"


def test_json_before_a_double_dash_counts_and_after_it_does_not(labctl: Labctl) -> None:
    assert json.loads(labctl("--json", "submit", "nope").stdout)["error"]["code"] == "NotFoundError"
    assert labctl("submit", "digits", "--", "--json").stdout == ""


@pytest.mark.parametrize("arguments", [["up"], ["logs", "ray-head", "-f"]])
def test_an_interrupt_is_130(labctl: Labctl, arguments: list[str]) -> None:
    labctl.stub(arguments[0], KeyboardInterrupt())
    result = labctl(*arguments)
    assert result.exit_code == INTERRUPTED
    assert result.stderr.endswith("interrupted\n")
    assert "Traceback" not in result.stderr


def test_an_interrupt_with_json_is_a_document(labctl: Labctl) -> None:
    labctl.stub("up", KeyboardInterrupt())
    assert labctl.json("up", code=INTERRUPTED)["error"]["exit_code"] == INTERRUPTED


def test_main_returns_the_exit_code(labctl: Labctl, capsys: pytest.CaptureFixture[str]) -> None:
    def main(*args: str) -> int:
        return entry.main(args, App(lambda *_: labctl.lab))

    assert main("status", "--json") == 0
    assert json.loads(capsys.readouterr().out)["up"] is True
    labctl.down()
    assert main("status", "--check") == 5
    assert capsys.readouterr().err.endswith("error: lab raylab is down\n  -> start it with `labctl up`\n")


def test_main_reads_the_arguments_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["labctl", "--version"])
    assert entry.main() == 0
    assert capsys.readouterr().out.startswith("labctl")


def test_what_the_machine_refuses_is_no_bug(labctl: Labctl) -> None:
    labctl.stub("up", PermissionError(13, "Permission denied", "/some/where"))
    result = labctl("up", "--quiet")
    assert result.exit_code == errors.SetupError.exit_code
    assert result.stderr.startswith("error: /some/where: Permission denied\n")


HOSTILE = "\x1b]0;x\x07\x9b31m\u202egnp\udcff\r"


def test_what_a_terminal_would_obey_is_written_out(labctl: Labctl) -> None:
    labctl.stub("up", errors.NotFoundError(f"no {HOSTILE}", f"not {HOSTILE}"))
    result = labctl("up", "--quiet")
    shown = r"\x1b]0;x\x07\x9b31m\u202egnp\udcff\r"
    assert result.stderr == f"error: no {shown}\n  -> not {shown}\n"


def test_json_holds_it_escaped(labctl: Labctl) -> None:
    labctl.stub("up", errors.NotFoundError(HOSTILE))
    result = labctl("up", "--json", "--quiet")
    assert result.stdout.isascii()
    assert json.loads(result.stdout)["error"]["message"] == HOSTILE


def test_json_of_a_shape_holds_it_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Output().document(CheckRecord("asks", True, HOSTILE))
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"name": "asks", "passed": True, "detail": HOSTILE}


def test_lines_and_tables_obey_nobody_and_keep_their_colours(labctl: Labctl) -> None:
    assert harmless("a\tb\nc") == "a\tb\nc"
    assert harmless("\x1b[31mred\x1b[0m\x1b[2J", colours=True) == "\x1b[31mred\x1b[0m\\x1b[2J"
    assert table(("A",), [("\x1b[2J",)]).rows == ((r"\x1b[2J",),)


def test_a_command_whose_packages_are_elsewhere_goes_on_there(labctl: Labctl) -> None:
    labctl.stub("up", ElsewhereError("local", "/package"))
    go_on = labctl.stub("lab.cli.main.go_on", 0)
    assert labctl("up", "--quiet").exit_code == 0
    go_on.assert_called_once_with("local", ["up", "--quiet"])


@pytest.mark.parametrize("columns", [60, 80])
def test_on_a_terminal_lines_are_broken_between_words(columns: int) -> None:
    lines = wrapped(FULL_DISK, columns, len("error: ")).split("\n")
    assert len("error: " + lines[0]) <= columns
    assert all(line.startswith(CONTINUED) and len(line) <= columns for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == FULL_DISK


def test_what_fits_and_what_has_no_space_stays_as_it_is() -> None:
    assert wrapped("fits", 60) == "fits"
    assert wrapped("/" + "x" * 90, 60, 5).strip() == "/" + "x" * 90
    assert wrapped("its last lines:\n  File a.py\n", 60, 7) == "its last lines:\n  File a.py\n"


def test_a_sentence_of_the_result_is_broken_between_words_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Output().sentence(FULL_DISK)
    assert capsys.readouterr().out == FULL_DISK + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    Output().sentence(FULL_DISK)
    assert capsys.readouterr().out == wrapped(FULL_DISK, 60) + "\n"
