"""The documents keep up with the code: commands, options, errors, settings, messages, links, examples."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache

import click
import pytest

from lab import errors
from lab.api.receipt import CHECKS
from lab.cli import values
from lab.cli.context import App, SharedOption
from lab.cli.listing import walk
from lab.cli.main import BROKEN_PIPE, cli
from lab.cluster import ray_settings
from lab.cluster.patches import patches
from lab.cluster.recipes import find_recipe, recipes
from lab.evidence.ledger.history import PLAN_KEYS, PROGRESS_KEYS
from lab.evidence.receipt import Verdict
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.questions import QUESTIONS
from lab.extension import probes
from lab.faults import catalogue, find_fault
from lab.runtime.spec import Asked
from tests.conftest import ROOT
from tests.entrances import table
from tests.sources import source_of

PAGES = tuple(sorted(path.stem for path in (ROOT / "docs").glob("*.md")))
DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("docker/README.md", "workspace/README.md"),
    *(f"docs/{name}.md" for name in PAGES),
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^(?:labctl|python3? labctl\.py)(?= |$)")
SHELL = ("|", "||", ">", ">>", "&&", ";")
PLACEHOLDERS = ("RECIPE", "...", "…")


@cache
def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(name: str, level: str) -> dict[str, str]:
    """Heading -> text, of the headings of this level; fenced blocks hold none."""
    parts = re.split(rf"^{level} (.+)$", FENCE.sub("", read(name)), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def code(text: str) -> set[str]:
    """What stands between single backticks, without the escapes of a table."""
    return {span.replace("\\|", "|") for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", text))}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its full name."""
    for name, command in cli.commands.items():
        for full, below in walk(name, command):
            if not isinstance(below, click.Group) or below.invoke_without_command:
                yield f"labctl {full}", below


def flags(command: click.Command, shared: bool) -> set[str]:
    options = [p for p in command.params if isinstance(p, click.Option)]
    chosen = [p for p in options if isinstance(p, SharedOption) == shared]
    return {flag for p in chosen for flag in (*p.opts, *p.secondary_opts)}


def named(flag: str, spans: set[str]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", span) for span in spans)


# Commands


def test_every_command_has_its_section_and_an_example() -> None:
    headings = {h for h in sections("docs/commands.md", "##") if h.startswith("labctl ")}
    assert headings == {name for name, _ in commands()}
    for name, _ in commands():
        assert f"\n$ {name}" in read("docs/commands.md"), f"no example of {name}"


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda v: v if isinstance(v, str) else "")
def test_every_option_and_argument_is_documented(name: str, command: click.Command) -> None:
    spans = code(sections("docs/commands.md", "##")[name])
    missing = {flag for flag in flags(command, shared=False) if not named(flag, spans)}
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            words = re.findall(r"[A-Z]+", parameter.make_metavar(click.Context(command))) or ["SHELL"]
            missing |= {word for word in words if not named(word, spans)}
        elif isinstance(parameter.type, click.Choice) and not isinstance(parameter, SharedOption):
            missing |= {str(choice) for choice in parameter.type.choices if not named(str(choice), spans)}
    assert not missing


def test_the_shared_options_are_documented() -> None:
    spans = code(sections("docs/commands.md", "##")["Shared options"])
    wanted = flags(cli, shared=True) | {"--version", "--help", "-h"}
    assert not {flag for flag in wanted if not named(flag, spans)}


def test_no_option_is_documented_that_is_not_there() -> None:
    known = {"--version", "--help", "--"} | flags(cli, shared=True)
    known |= {flag for _, command in commands() for flag in flags(command, shared=False)}
    text = "\n".join(sections("docs/commands.md", "##").values())
    documented = {flag for span in code(text) for flag in re.findall(r"(?<![\w-])--[a-z0-9-]*", span)}
    assert documented <= known


def command_lines() -> Iterator[tuple[str, str]]:
    """(document, command line) of every call of labctl in a block or between backticks."""
    mentions = {name for name, _ in commands()}
    for name in DOCUMENTS:
        lines = []
        for language, block in FENCE.findall(read(name)):
            if language == "console":
                lines += [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            elif language == "sh":
                lines += block.splitlines()
        lines += sorted(code(read(name)) - mentions)
        for line in lines:
            if CALL.match(line) and not any(word in PLACEHOLDERS for word in line.split()):
                yield name, line


def parse(args: list[str]) -> click.Context:
    """Parse as labctl does, without running anything."""
    context = cli.make_context("labctl", args, obj=App())
    while isinstance(context.command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, args = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, args, parent=context)
    return context


@pytest.mark.parametrize(("document", "line"), sorted(set(command_lines())))
def test_a_documented_command_line_is_understood(document: str, line: str) -> None:
    words = shlex.split(CALL.sub("", line), comments=True)
    end = next((i for i, word in enumerate(words) if word in SHELL), len(words))
    try:
        context = parse(words[:end])
    except click.exceptions.Exit:  # after --help or --version
        return
    params = context.params
    if params.get("recipe"):
        find_recipe(params["recipe"]).arguments(values.settings(params["parameters"]))
    if "kind" in params:
        find_fault(params["kind"])
    if "ports" in params:
        Asked(ports=values.ports(params["ports"]), workers=params["workers"])


def test_lines_that_labctl_would_refuse_are_found() -> None:
    with pytest.raises(click.UsageError):
        parse(["up", "--voodoo", "all"])
    assert any("fault-inject" in line for _, line in command_lines())


# Tables


def rows(name: str) -> list[list[str]]:
    lines = [line for line in read(name).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_error_and_exit_code_is_in_the_table() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.LabError)]
    table = {(row[0], row[1]) for row in rows("docs/commands.md") if row[0].isdigit()}
    wanted = {(str(c.exit_code), f"`{c.__name__}`") for c in classes}
    assert table == wanted | {("0", ""), (str(errors.INTERRUPTED), ""), (str(BROKEN_PIPE), "")}


def test_the_settings_of_ray_are_those_of_the_lab() -> None:
    table = [
        row for row in rows("docs/recovery.md") if re.fullmatch(r"`(RAY|RAYLAB|TORCH|GRPC|RUST)_\w+`", row[0])
    ]
    assert table == [[f"`{k.name}`", k.stock, k.value, k.reason] for k in ray_settings.KNOBS]


def test_the_patches_of_ray_are_those_of_the_table() -> None:
    table = [(*row[:3], row[4]) for row in rows("docs/patches.md") if row[0].startswith("`")]
    assert table == [
        (f"`{p.name}`", p.changes, p.why, f"stays: {p.stays}" if p.stays else "off") for p in patches()
    ]


def test_every_fault_is_described() -> None:
    section = sections("docs/recovery.md", "##")["Faults"]
    assert sorted(re.findall(r"\*\*`([a-z0-9-]+)`\*\*", section)) == sorted(kind.name for kind in catalogue())


def test_every_check_and_verdict_is_named() -> None:
    checks = [CHECKS[check] for check in QUESTIONS[Expected.NODE_LOST]]
    assert [row[0] for row in rows("docs/recovery.md") if row[0] in checks] == checks
    assert {verdict.value for verdict in Verdict} <= code(read("docs/recovery.md"))


def test_every_event_of_the_ledger_is_described() -> None:
    source = "".join(f.read_text(encoding="utf-8") for root in probes() for f in root.rglob("*.py"))
    recorded = set(re.findall(r"\b_?record\(\s*\"(\w+)\"", source))
    table = sections("docs/recovery.md", "##")["The ledger"]
    assert len(recorded) > 8
    assert recorded == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert {*PROGRESS_KEYS, *PLAN_KEYS} <= code(table)


def test_every_recipe_is_named_with_its_summary() -> None:
    text = read("docs/commands.md")
    assert [recipe.name for recipe in recipes() if f"{recipe.name}: {recipe.summary}" not in text] == []


def test_every_variable_that_is_documented_is_read_somewhere() -> None:
    sources = "\n".join([*(p.read_text() for p in (ROOT / "lab").rglob("*.py")), read("labctl.py")])
    table = sections("docs/commands.md", "##")["Environment variables"]
    names = re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE)
    assert {"RAYLAB_HOME", "LABCTL_NO_VENV", "NO_COLOR"} <= set(names)
    assert not [name for name in names if f'"{name}"' not in sources]


def test_plain_compose_is_told_every_variable_and_secret_file() -> None:
    files = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "compose").glob("*.yaml"))
    table = sections("docs/compose.md", "##")["Variables"]
    assert set(re.findall(r"\$\{(LAB_\w+)", files)) == {n for n in code(table) if n.startswith("LAB_")}
    secrets = re.findall(r"LAB_SECRETS:-\./secrets\}/([\w.-]+)", files)
    assert len(secrets) > 5
    assert set(secrets) <= {row[0].strip("`") for row in rows("docs/compose.md")}


# Messages


@cache
def texts() -> str:
    """Every string in the source, and every fixed piece of an f-string, each between two NUL."""
    pieces: list[str] = []
    for path in [ROOT / "labctl.py", *(ROOT / "lab").rglob("*.py")]:
        for string in source_of(path).strings:
            pieces += [piece.strip() for piece in re.split(r"%[sd]|\{\w+\}", string)]
    return "\0".join(["", *pieces, ""])


def is_printed(piece: str) -> bool:
    """Whether a string of the source holds this, or two that are put together do."""
    cuts = ((piece[:i].strip(), piece[i:].strip()) for i, c in enumerate(piece) if c == " ")
    return piece in texts() or any(f"{left}\0" in texts() and f"\0{right}" in texts() for left, right in cuts)


MESSAGES = re.findall(r"^### `(.+)`$", read("docs/troubleshooting.md"), re.MULTILINE)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_heading_of_troubleshooting_is_a_message_of_labctl(message: str) -> None:
    pieces = [piece.strip() for piece in message.split("…")]
    assert all(is_printed(piece) for piece in pieces if piece)


def test_a_message_that_labctl_never_prints_is_found() -> None:
    assert len(MESSAGES) > 30
    assert not is_printed("the flux capacitor is empty")


# README, links, examples


def test_the_glossary_is_short_sorted_and_in_use() -> None:
    terms = re.findall(r"^\| ([A-Z][^|]*) \| [^|]+ \|$", read("docs/glossary.md"), re.MULTILINE)
    assert 0 < len(terms) <= 60
    assert terms == sorted(set(terms), key=str.lower)
    others = [read(name) for name in DOCUMENTS if name != "docs/glossary.md"]
    text = "\n".join([*others, *(path.read_text() for path in (ROOT / "lab").rglob("*.py"))])
    assert [term for term in terms if not re.search(rf"\b{re.escape(term)}", text, re.IGNORECASE)] == []
    assert "(docs/glossary.md)" in read("README.md")
    assert "(docs/glossary.md)" in read("CONTRIBUTING.md")


def test_the_readme_opens_with_one_sentence_a_picture_and_two_commands() -> None:
    lines = read("README.md").splitlines()
    assert len(lines) <= 130
    sentence, picture, heading, block = "\n".join(lines[2:]).split("\n\n")[:4]
    assert sentence.count(".") == 1
    assert sentence.endswith(".")
    assert picture.startswith("<picture>")
    assert heading == "## Two commands"
    assert block == "```console\n$ python3 labctl.py demo\n$ python3 labctl.py test\n```"
    transcript = FENCE.findall(read("README.md"))[1][1]
    assert max(map(len, transcript.splitlines())) <= 80


PICTURES = re.findall(r"(?:src|srcset)=\"([^\"]+)\"", read("README.md"))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_there_in_both_colours_and_small(name: str) -> None:
    for theme in ("light", "dark"):
        file = ROOT / re.sub("light|dark", theme, name)
        assert 0 < file.stat().st_size < 150_000


def test_every_picture_of_the_readme_has_words_beside_it() -> None:
    assert len(PICTURES) == 2
    assert all(
        re.search(r"\balt=\"[^\"]{40,}\"", tag) for tag in re.findall(r"<img[^>]*>", read("README.md"))
    )


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_relative_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", read(name))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("name", DOCUMENTS)
def test_examples_in_python_and_json_are_well_formed(name: str) -> None:
    for language, block in FENCE.findall(read(name)):
        if language == "python":
            compile(block, name, "exec")
        elif language == "json":
            json.loads(block)


def test_every_document_has_its_place_on_the_site() -> None:
    named = re.findall(r"([\w/-]+\.md)$", read("mkdocs.yml"), re.MULTILINE)
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert sorted(named) == sorted({*pages, *DOCUMENTS})


def test_the_workspace_shows_the_example_as_it_is() -> None:
    (block,) = [
        block for language, block in FENCE.findall(read("workspace/README.md")) if language == "python"
    ]
    assert read("workspace/examples/resumable.py").endswith(f"\n{block}")


def test_the_entrances_of_a_class_are_those_that_are_tried() -> None:
    assert f"\n{table()}\n" in read("docs/class.md")


def test_each_section_on_gpus_says_which_tests_ran_it() -> None:
    headings = ["GPUs", *sections("docs/gpus.md", "##")]
    *tried, last = headings
    table = re.findall(r"^\| \[(.+?)\]\(#\S+\) \| (.+?) \| ?(.*?) ?\|$", read("docs/gpus.md"), re.MULTILINE)
    assert [section for section, _, _ in table] == tried, last
    for section, tests, _ in table:
        paths = re.findall(r"`(\S+\.py)`", tests)
        assert paths, section
        folder = ROOT
        for path in paths:  # one without a folder lies beside the one before it
            assert (ROOT / path if "/" in path else folder / path).is_file(), path
            folder = (ROOT / path).parent if "/" in path else folder
