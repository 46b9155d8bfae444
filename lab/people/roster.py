"""Names of people who are to be added: typed, counted, or from a CSV file; what is wrong has its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from lab.errors import NotFoundError, UsageError
from lab.host.reading import SMALL, TooLargeError, read_bytes
from lab.people.policy import Role
from lab.people.registry import Newcomer

NAME = r"[a-z][a-z0-9]{0,23}"
"""A person's name. It has no hyphen: the jobs of ann are called `ann-...`, and are nobody else's."""

NAME_RULE = "1 to 24 lower-case letters and digits, a letter first"

RESERVED = frozenset({"default", "lab", "people", "shared", "raylab", "all", "everybody"})
"""Names of namespaces and folders that mean something else."""

MOST = 500
"""People of a class."""

COLUMNS = ("name", "role")
HEADER = "the first line names the columns: name, or name,role"
SHOWN = 5


def checked(names: Sequence[str], role: Role = Role.STUDENT) -> tuple[Newcomer, ...]:
    """People of these names. Raises UsageError that says what is wrong with the first bad ones."""
    newcomers = [Newcomer(name, role) for name in names]
    _refuse([f"{name!r}: {why}" for name, why in _wrong_names(names)], "")
    return tuple(newcomers)


def counted(count: int, taken: Collection[str], role: Role = Role.STUDENT) -> tuple[Newcomer, ...]:
    """So many people called student01, student02, ..., those that are there left out. Raises UsageError."""
    if not 1 <= count <= MOST:
        raise UsageError(f"--count {count}: must be between 1 and {MOST}")
    names = (f"{role.value}{number:02d}" for number in range(1, MOST + len(taken) + 1))
    free = (name for name in names if name not in taken)
    return tuple(Newcomer(next(free), role) for _ in range(count))


def read_csv(path: Path, taken: Collection[str] = ()) -> tuple[Newcomer, ...]:
    """The people of a CSV file. Raises NotFoundError; UsageError with the lines and the reasons."""
    rows = list(_rows(_text(path), path))
    if not rows:
        raise UsageError(f"{path}: is empty", HEADER)
    columns = [cell.strip().lower() for cell in rows[0][1]]
    _check_header(columns, path, rows[0][0])
    newcomers, problems, lines = [], [], dict[str, int]()
    for line, cells in rows[1:]:
        if len(cells) != len(columns):
            problems.append(f"line {line}: has {len(cells)} columns, not {len(columns)}")
            continue
        record = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        name, role = record["name"], record.get("role") or Role.STUDENT.value
        if why := _wrong_name(name) or _wrong_role(role):
            problems.append(f"line {line}: {why}")
        elif name in lines:
            problems.append(f"line {line}: {name} is already in line {lines[name]}")
        elif name in taken:
            problems.append(f"line {line}: {name} is already in the class")
        else:
            lines[name] = line
            newcomers.append(Newcomer(name, Role(role)))
    _refuse(problems, f"{path}: ")
    if not newcomers:
        raise UsageError(f"{path}: lists nobody", "write one person a line, below the names of the columns")
    if len(newcomers) > MOST:
        raise UsageError(f"{path}: has {len(newcomers)} people; at most {MOST} can be added")
    return tuple(newcomers)


def _text(path: Path) -> str:
    try:
        data = read_bytes(path, SMALL)
    except TooLargeError as error:
        raise UsageError(f"{path} is {error.strerror}, too large for a list of people") from error
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror}", "a CSV file with a column `name`") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{path}, line 1: is text in UTF-16", "save it as CSV in UTF-8")
    try:
        return data.decode("utf-8-sig")  # Excel begins `CSV UTF-8` with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}, line {line}: is not text in UTF-8", "save it as CSV in UTF-8") from error


def _rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row that is not empty. Raises UsageError."""
    comma = ";" if ";" in text.partition("\n")[0] else ","  # as Excel writes it where a comma is in numbers
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=comma, strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                yield reader.line_num, cells
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {reader.line_num}: is not CSV: {error}", "check its quotes"
        ) from error


def _check_header(columns: Sequence[str], path: Path, line: int) -> None:
    where = f"{path}, line {line}"
    if len(columns) == 1 and "\t" in columns[0]:
        raise UsageError(f"{where}: columns are separated by tabs", "save it with commas")
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise UsageError(f"{where}: unknown column {unknown[0]!r}", HEADER)
    if len(set(columns)) != len(columns):
        raise UsageError(f"{where}: a column is named twice", HEADER)
    if "name" not in columns:
        raise UsageError(f"{where}: there is no column `name`", HEADER)


def _wrong_names(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(names):
        why = _wrong_name(name) or ("is named twice" if name in names[:number] else "")
        if why:
            yield name, why


def _wrong_name(name: str) -> str:
    if not name:
        return "the name is empty"
    if not re.fullmatch(NAME, name, re.ASCII):
        return f"{name[:40]!r} is not a valid name: {NAME_RULE}"
    return f"{name} is a reserved name" if name in RESERVED else ""


def _wrong_role(role: str) -> str:
    known = [known.value for known in Role]
    return "" if role in known else f"{role[:40]!r} is not a role; there are {', '.join(known)}"


def _refuse(problems: Sequence[str], where: str) -> None:
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        message = where + "; ".join(problems[:SHOWN]) + more
        raise UsageError(message, "nobody was added; correct this and try again")
