"""Names say what a value holds, in the word that the field has for it; docstrings say what is done."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FORBIDDEN = ("found", "told", "each")
"""Words that say how a value came, not what it is: `match`, `candidates`, `message`, `node` say that."""

SPELT = re.compile(rf"\b_*({'|'.join(FORBIDDEN)})_*\b")
"""What a module has to say for one of its names to be forbidden: most need not be parsed."""

LEFT_OUT = ("build", "compose", "dist")
"""Folders without code, with what tools and containers make; those with a dot are caches."""


def code_of(file: Path) -> str | None:
    """The Python of a module, a script without a suffix, or a notebook's cells; None for another file."""
    if file.suffix == ".ipynb":
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        return re.sub(r"^[!%].*$", "", code, flags=re.MULTILINE)  # without what a shell gets
    if file.suffix == ".py" or (not file.suffix and re.match(rb"#!.*python", file.read_bytes())):
        return file.read_text(encoding="utf-8")
    return None


def files_of(folder: Path) -> Iterator[Path]:
    """All files of the project that may hold code, in their order."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and (path.name == ".ci" or not path.name.startswith((".", "__pycache__"))):
            if path.parent != ROOT or path.name not in LEFT_OUT:
                yield from files_of(path)
        elif path.is_file() and path.suffix in ("", ".py", ".ipynb"):
            yield path


WORDS = 5
"""Words of a message that a test may ask for: those that tell one refusal from others of its class."""


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of all that a module names: variables, parameters, attributes, functions, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.alias():
                yield node.lineno, node.asname or node.name


def forbidden(text: str) -> list[tuple[int, str]]:
    """Lines of a module that name something with a forbidden word, in their order."""
    return sorted((line, name) for line, name in names_of(ast.parse(text)) if name.strip("_") in FORBIDDEN)


def test_no_value_is_named_for_the_way_it_came() -> None:
    codes = {file.relative_to(ROOT).as_posix(): code_of(file) for file in files_of(ROOT)}
    assert {"labctl.py", "lab/lab.py", "tests/unit/test_names.py", "workspace/notebooks/08-tune.ipynb"} < set(
        codes
    )
    named = {file: forbidden(code) for file, code in codes.items() if code and SPELT.search(code)}
    assert not {file: names for file, names in named.items() if names}


def spelt(pattern: ast.expr) -> str:
    """The words of a pattern as they stand in a module; what is filled in is one of them."""
    match pattern:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(spelt(part) for part in parts)
        case ast.FormattedValue():
            return "{}"
        case ast.Call(args=[first, *_]):  # re.escape
            return spelt(first)
    return ""


def sentences(text: str) -> list[tuple[int, str]]:
    """Line and pattern of each `match=` of a module that asks for more words of a message than it should."""
    patterns = [
        (keyword.value.lineno, spelt(keyword.value))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("raises", "warns")
        for keyword in node.keywords
        if keyword.arg == "match"
    ]
    return [(line, pattern) for line, pattern in patterns if len(pattern.split()) > WORDS]


def test_no_test_repeats_a_whole_message() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in sorted((ROOT / "tests").rglob("*.py"))}
    long = {
        file.relative_to(ROOT).as_posix(): sentences(text) for file, text in texts.items() if "match=" in text
    }
    assert not {file: patterns for file, patterns in long.items() if patterns}


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("'one two three four five six'", 6),
        ("f'{host} does not answer on {port}'", 6),
        ("re.escape('no (a) for b of c')", 6),
        ("'one two three four five'", 0),
        ("f'{host} does not answer'", 0),
        ("message", 0),
    ],
)
def test_a_pattern_of_many_words_is_seen(pattern: str, words: int) -> None:
    refused = sentences(f"with pytest.raises(LabError, match={pattern}): ...")
    assert [len(pattern.split()) for _, pattern in refused] == ([words] if words else [])


POINTING = re.compile(r"[\"']\s*(See|Raises) ")
"""What a module has to say for one of its docstrings to begin so: most need not be parsed."""


def test_no_docstring_only_points_elsewhere_or_only_says_what_is_raised() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    pointing = [
        f"{file.relative_to(ROOT)}: {getattr(node, 'name', 'module')}"
        for file in sorted((ROOT / "lab").rglob("*.py"))
        if POINTING.search(text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and (ast.get_docstring(node) or "").startswith(("See ", "Raises "))
    ]
    assert pointing == []


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "[each.key for each in rows]",
        "def ask(told): ...",
        "def told(): ...",
        "self.found",
        "def _told(): ...",
        "from rows import line as each",
        "try: ...\nexcept OSError as told: ...",
        "match row:\n case [1, *found]: ...",
        "match row:\n case {'a': 1, **each}: ...",
    ],
)
def test_a_forbidden_name_is_seen_wherever_it_is_given(text: str) -> None:
    assert forbidden(text)


def test_modules_scripts_and_notebooks_are_read_and_nothing_else(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["no `each`"]},
        {"cell_type": "code", "source": ["!ls -l\n", "rows = 1"]},
    ]
    texts = {
        "book.ipynb": json.dumps({"cells": cells}),
        "caller": "#!/bin/sh\nls\n",
        "module.py": "a = 1",
        "script": "#!/usr/bin/env python3\nb = 2\n",
        "words.md": "told",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.py").write_text("found = 1")
    codes = {file.name: code_of(file) for file in files_of(tmp_path)}
    assert codes == {
        "book.ipynb": "\nrows = 1",
        "caller": None,
        "module.py": "a = 1",
        "script": "#!/usr/bin/env python3\nb = 2\n",
    }
