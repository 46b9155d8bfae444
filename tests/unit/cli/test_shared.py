"""Options that every command has, help texts, and completion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click
import pytest

from lab.cli import commands as package
from lab.cli.commands.own import completion_script
from lab.cli.context import App, SharedOption
from lab.cli.listing import all_commands
from lab.cli.main import cli
from lab.core import EXTENSION as CORE
from lab.errors import UsageError
from lab.extension import SECTIONS, Command
from lab.lab import Lab
from lab.topology import DEFAULT_LAB
from tests.conftest import ROOT
from tests.unit.cli.fakes import Labctl

EXPECTED = {
    "up", "down", "status", "logs", "submit", "top", "fault-inject", "heal", "restart", "gpus",
    "doctor", "demo", "test",
    "jobs", "jobs show", "jobs logs", "jobs stop", "jobs checkpoints",
    "images", "images list", "images pull", "images build", "images save", "images load",
    "class", "class add",  "class invite", "class list", "class progress",
    "class remove", "class reset",
    "queue", "queue check", "queue simulate", "queue list", "queue describe", "queue why",
    "queue apply", "queue delete", "queue get", "queue hold", "queue resume",
    "queue events", "queue receipt",
    "self", "self check", "self remove", "self completion",
}  # fmt: skip


def commands(group: click.Group = cli, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name."""
    for name, command in group.commands.items():
        yield prefix + name, command
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")


ALL = dict(commands())


@pytest.mark.parametrize("columns", [60, 80])
def test_help_breaks_between_words(columns: int) -> None:
    for name, command in ALL.items():
        shown = command.context_class(command, info_name=name, terminal_width=columns).get_help()
        assert not re.search(r"[\w`]-$|\S  \[default", shown, re.MULTILINE), shown


def test_every_command_is_there() -> None:
    core = {command.name for command in CORE.commands}
    others = {command.name for command in all_commands()} - core
    assert {name for name in ALL if name.split()[0] in core} - others == EXPECTED


@pytest.mark.parametrize("name", ["", *sorted(ALL)])
def test_every_command_and_option_has_help(name: str, labctl: Labctl) -> None:
    command = ALL[name] if name else cli
    assert command.help
    for param in command.params:
        assert getattr(param, "help", None), f"{name}: {param.name} has no help"
    shown = labctl.ok(*name.split(), "--help")
    assert f"Usage: {' '.join(['labctl', *name.split()])} " in shown
    assert labctl.ok(*name.split(), "-h") == shown


def test_the_list_of_commands_has_no_sentence_cut_short(labctl: Labctl) -> None:
    assert "..." not in labctl.ok("--help").partition("Options:")[0].partition("Run:")[2]
    for name in (name for name, command in ALL.items() if isinstance(command, click.Group)):
        assert "..." not in labctl.ok(*name.split(), "--help").partition("Commands:")[2], name


def test_each_command_stands_in_the_help_once(labctl: Labctl) -> None:
    lines = labctl.ok("--help").splitlines()
    assert [lines.index(f"{title}:") for title in SECTIONS] == sorted(lines.index(f"{t}:") for t in SECTIONS)
    for name in cli.commands:
        assert len([line for line in lines if line.startswith(f"  {name} ")]) == 1, name


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_a_command_says_of_itself_what_the_list_says(command: Command) -> None:
    assert ALL[command.name].get_short_help_str(1000) == command.help


def test_every_command_of_a_module_is_listed() -> None:
    for module in {command.module for command in all_commands()}:
        made = {command.name for command in import_module(module).COMMANDS}
        rows = {command.name for command in all_commands() if command.module == module}
        assert made == {name.rpartition(" ")[2] for name in rows}
    modules = {f"{package.__name__}.{module.name}" for module in iter_modules(package.__path__)}
    assert modules == {command.module for command in CORE.commands}


@pytest.mark.parametrize("group", [name for name in ("self", "export", "lesson data") if name in ALL])
def test_a_group_alone_shows_its_commands_and_says_that_one_is_missing(labctl: Labctl, group: str) -> None:
    result = labctl(*group.split())
    assert result.exit_code == 2
    shown, _, error = result.stderr.partition("error: ")
    assert shown.startswith(f"Usage: labctl {group} ")
    assert "\nCommands:\n" in shown
    assert error == "missing command\n  -> name one of the commands above\n"
    assert labctl.json(*group.split(), code=2)["error"]["message"] == "missing command"


def test_no_command_shows_the_help(labctl: Labctl) -> None:
    assert labctl.ok() == labctl.ok("--help")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_command_takes_the_shared_options(name: str) -> None:
    shared = {param.name for param in ALL[name].params if isinstance(param, SharedOption)}
    assert shared == {"lab", "runtime", "json", "verbose", "quiet"}


@pytest.mark.parametrize(
    ("arguments", "opened"),
    [
        (["status"], ("auto", DEFAULT_LAB)),
        (["--lab", "other", "status"], ("auto", "other")),
        (["status", "--lab", "other"], ("auto", "other")),
        (["--lab", "first", "status", "--lab", "last"], ("auto", "last")),
        (["--runtime", "local", "status"], ("local", DEFAULT_LAB)),
        (["status", "--runtime", "local"], ("local", DEFAULT_LAB)),
        (["jobs", "--lab", "other", "show", "job-1"], ("auto", "other")),
        (["submit", "digits", "--lab", "other", "--detach"], ("auto", "other")),
    ],
)
def test_shared_options_stand_before_or_after_the_command(
    labctl: Labctl, arguments: list[str], opened: tuple[str, str]
) -> None:
    labctl(*arguments)
    assert labctl.opened == [opened]


def test_labctl_opens_the_lab_that_a_program_opens(raylab_home: Path) -> None:
    app = App()
    app.runtime, app.lab = "local", "mine"
    lab, same = app.open(), Lab("local", name="mine")
    assert (lab.name, lab.runtime.kind, lab.why) == (same.name, same.runtime.kind, same.why)
    assert lab.runtime.folder() == raylab_home / "mine"


def test_the_environment_is_the_default(labctl: Labctl) -> None:
    labctl.env = {"RAYLAB_NAME": "from-env", "RAYLAB_RUNTIME": "local"}
    labctl.ok("status")
    labctl.ok("status", "--lab", "flag", "--runtime", "auto")
    assert labctl.opened == [("local", "from-env"), ("auto", "flag")]


def test_a_name_that_no_lab_can_have_is_refused_before_anything_is_opened(labctl: Labctl) -> None:
    assert labctl("--lab", "No/Such", "status").exit_code == 2
    assert labctl("doctor", "--lab", "No/Such").exit_code == 2
    assert labctl.opened == []


@pytest.mark.parametrize(
    "line",
    [
        ["--name", "other", "status"],
        ["status", "--name", "other"],
        ["jobs", "show", "--name=other", "job-1"],
        ["submit", "digits", "--name", "first"],
        ["submit", "llm-batch", "--name", "answers"],
        ["submit", "digits", "--detach", "--name"],
    ],
    ids=" ".join,
)
def test_the_name_of_both_is_refused_with_the_name_of_each(labctl: Labctl, line: list[str]) -> None:
    result = labctl(*line)
    assert (result.exit_code, result.stdout, labctl.opened) == (2, "", [])
    assert result.stderr == (
        "error: --name is no longer an option\n"
        "  -> --lab names the lab; --job-name of `submit` names the job\n"
    )


def test_a_command_of_a_job_keeps_its_name(labctl: Labctl, tmp_path: Path) -> None:
    line = ("submit", "--detach", "--working-dir", str(tmp_path), "--", "echo", "--name", "x")
    labctl.ok(*line)
    assert labctl.jobs.submitted[0].command == ("echo", "--name", "x")


BLANK = ["", " ", "\t\n"]


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("before", [True, False])
def test_an_empty_name_is_not_the_default_lab(labctl: Labctl, blank: str, before: bool) -> None:
    down, name = ["down", "--volumes", "--yes"], ["--lab", blank]
    result = labctl(*name, *down) if before else labctl(*down, *name)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --lab {blank!r}: not a lab name\n")
    assert labctl.opened == []


@pytest.mark.parametrize("blank", [*BLANK, "No/Such"])
def test_an_empty_name_in_the_environment_is_not_the_default_lab(labctl: Labctl, blank: str) -> None:
    labctl.env["RAYLAB_NAME"] = blank
    for command in (["down", "--volumes", "--yes"], ["doctor"], ["status"]):
        result = labctl(*command)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: RAYLAB_NAME {blank!r}: not a lab name\n")
    assert labctl.opened == []
    labctl.ok("status", "--lab", "mine")
    labctl.ok("submit", "--list")


def takers() -> Iterator[tuple[str, click.Parameter]]:
    """Every option and argument that takes a value."""
    for name, command in [("", cli), *commands()]:
        for param in command.params:
            if not (isinstance(param, click.Option) and (param.is_flag or param.is_eager)):
                yield f"{name} {max(param.opts, key=len)}", param


def takes(param: click.Parameter, value: str) -> bool:
    """Whether it takes this value from a command line."""
    try:
        param.type.convert(value, param, click.Context(cli))
    except (UsageError, click.UsageError):
        return False
    return True


@pytest.mark.parametrize("blank", BLANK)
def test_no_empty_value_means_a_default(blank: str) -> None:
    assert len(dict(takers())) > 250
    assert [name for name, param in takers() if takes(param, blank)] == []


@pytest.mark.parametrize(
    "line",
    [
        ["fault-inject", ""],
        ["fault-inject", "--job", ""],
        ["chaos", "--job", ""],
        ["up", "--gpus", ""],
        ["up", "--port", ""],
        ["jobs", "stop", ""],
        ["jobs", "checkpoints", ""],
        ["logs", " "],
        ["restart", ""],
        ["report", ""],
        ["report", "--output", ""],
        ["lesson", "data", "rm", "", "--yes"],
        ["lesson", "data", "food11", "--sha256", ""],
        ["submit", ""],
    ],
    ids=" ".join,
)
def test_an_empty_value_does_nothing(labctl: Labctl, line: list[str]) -> None:
    result = labctl(*line)
    assert (result.exit_code, result.stdout) == (2, "")
    assert ": is empty\n  -> give it a value, or leave it out; is a shell variable" in result.stderr
    assert labctl.opened == []


def test_quiet_leaves_the_result_alone(labctl: Labctl) -> None:
    result = labctl("--quiet", "up")
    assert result.stderr == ""
    assert "up and healthy" in result.stdout


def test_the_runtime_is_announced_by_up_and_elsewhere_only_when_asked(labctl: Labctl) -> None:
    line = "runtime: fake (auto: no Docker Engine answers)\n"
    assert line in labctl("up").stderr
    assert line not in labctl("status").stderr
    assert line in labctl("status", "--verbose").stderr
    assert "runtime: fake\n" in labctl("up", "--runtime", "local").stderr


def test_advice_names_the_lab_that_it_is_about(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    labctl.runtime.down()
    for line in (("status", "--lab", "other"), ("--lab", "other", "status", "--addresses")):
        assert labctl(*line).stderr == "start it with: labctl --lab other up\n"
    assert "-> start it with `labctl --lab other up`" in labctl("status", "--check", "--lab", "other").stderr
    refused = json.loads(labctl("queue", "--json", "--lab", "other").stdout)
    assert "labctl --lab other up" in refused["error"]["hint"]
    assert "labctl up\n" in labctl("status").stderr
    monkeypatch.setenv("RAYLAB_NAME", "other")
    app = App()
    assert app.out.about("labctl up") == "labctl --lab other up"
    app.lab = DEFAULT_LAB
    assert app.out.about("labctl up") == "labctl --lab raylab up"
    app.lab = "no lab"
    assert app.out.about("labctl up") == "labctl up"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(labctl: Labctl, shell: str) -> None:
    script = labctl.ok("self", "completion", shell)
    (asks,) = (line for line in script.splitlines() if f"_LABCTL_COMPLETE={shell}_complete" in line)
    assert f"{ROOT / 'labctl.py'})" in asks, "an alias is no command that a script can call"
    assert "$+commands" not in script
    assert script.strip() == completion_script(shell, cli).strip()
    assert labctl.json("self", "completion", shell) == {
        "shell": shell,
        "script": completion_script(shell, cli),
    }


def test_an_unknown_shell_is_refused(labctl: Labctl) -> None:
    assert labctl("self", "completion", "dash").exit_code == 2


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("labctl fault", {"fault-inject"}),
        ("labctl logs ray-w", {"ray-worker-0", "ray-worker-1"}),
        ("labctl fault-inject ray", {"ray-worker-0", "ray-worker-1"}),
        ("labctl fault-inject --fault pau", {"pause"}),
        ("labctl submit dig", {"digits"}),
        ("labctl submit digits -p batch", {"batch-size="}),
        ("labctl up --gpu si", {"simulated"}),
        ("labctl jobs s", {"show", "stop"}),
        ("labctl lesson data f", {"food11"}),
    ],
)
def test_completion_offers(
    labctl: Labctl,
    line: str,
    offered: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_LABCTL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    shown = labctl.ok().split()
    assert {word.partition(",")[2] for word in shown} == offered
    assert labctl.opened == []
