from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError, NotFoundError, UsageError
from lab.people.policy import Role
from lab.people.registry import Newcomer
from lab.people.roster import MOST, checked, counted, read_csv

GOOD = {
    "names alone": b"name\nann\nben\n",
    "with roles": b"name,role\nann,student\nben,\n",
    "other order": b"role,name\nstudent,ann\n,ben\n",
    "Windows line ends": b"name\r\nann\r\nben\r\n",
    "a mark of UTF-8, as Excel writes it": b"\xef\xbb\xbfname\nann\nben\n",
    "no line end at the end": b"name\nann\nben",
    "empty lines": b"name\n\nann\n\n\nben\n\n",
    "spaces around": b" Name , ROLE \n ann , student \n ben ,student\n",
    "quotes": b'"name"\n"ann"\n"ben"\n',
    "semicolons, as Excel": b"\xef\xbb\xbfname;role\r\nann;student\r\nben;\r\n",
}

BAD = {
    "empty": (b"", "is empty"),
    "only white space": (b"\n  \n", "is empty"),
    "only a header": (b"name\n", "lists nobody"),
    "no header": (b"ann\nben\n", "line 1: unknown column 'ann'"),
    "no column of names": (b"role\nstudent\n", "line 1: there is no column `name`"),
    "unknown column": (b"name,email\nann,a@b\n", "line 1: unknown column 'email'"),
    "column twice": (b"name,name\nann,ann\n", "line 1: a column is named twice"),
    "tabs": (b"name\trole\nann\tstudent\n", "line 1: columns are separated by tabs"),
    "too many cells": (b"name\nann\nben,student\n", "line 3: has 2 columns, not 1"),
    "too few cells": (b"name,role\nann,student\nben\n", "line 3: has 1 columns, not 2"),
    "empty name": (b"name,role\n,student\n", "line 2: the name is empty"),
    "only commas": (b"name,role\nann,\n,\n", "line 3: the name is empty"),
    "capital letters": (b"name\nAnn\n", "line 2: 'Ann' is not a valid name"),
    "a space inside": (b"name\nann b\n", "line 2: 'ann b' is not a valid name"),
    "a hyphen": (b"name\nann-b\n", "line 2: 'ann-b' is not a valid name"),
    "a dot": (b"name\n..\n", "line 2: '..' is not a valid name"),
    "a slash": (b"name\nann/ben\n", "line 2: 'ann/ben' is not a valid name"),
    "an accent": ("name\nzoë\n".encode(), "line 2: 'zoë' is not a valid name"),
    "another script": ("name\nаnn\n".encode(), "line 2: 'аnn' is not a valid name"),
    "digits of another script": ("name\nann٣\n".encode(), "line 2: 'ann٣' is not a valid name"),
    "digit first": (b"name\n1ann\n", "line 2: '1ann' is not a valid name"),
    "too long": (b"name\n" + b"a" * 25 + b"\n", "line 2: '" + "a" * 25 + "' is not a valid name"),
    "a line end inside": (b'name\n"an\nn"\n', r"line 3: 'an\\nn' is not a valid name"),
    "a formula": (b"name\n=1+1\n", "line 2: '=1\\+1' is not a valid name"),
    "reserved": (b"name\ndefault\n", "line 2: default is a reserved name"),
    "twice": (b"name\nann\nben\nann\n", "line 4: ann is already in line 2"),
    "there already": (b"name\nann\neva\n", "line 3: eva is already in the class"),
    "unknown role": (b"name,role\nann,boss\n", "line 2: 'boss' is not a role; there are student"),
    "UTF-16": ("name\nann\n".encode("utf-16"), "line 1: is text in UTF-16"),
    "Latin-1": ("name\nann\nzoë\n".encode("latin-1"), "line 3: is not text in UTF-8"),
    "a NUL": (b"name\nan\0n\n", "line 2: "),
    "open quotes": (b'name\nann\n"ben\n', "line 3: is not CSV"),
    "a spreadsheet": (b"PK\x03\x04\x14\x00\x08\x80\xff", "line 1: is not text in UTF-8"),
    "too many": (b"name\n" + b"".join(b"p%d\n" % n for n in range(MOST + 1)), f"at most {MOST} can be added"),
}


def written(folder: Path, data: bytes) -> Path:
    path = folder / "students.csv"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_good_lists(tmp_path: Path, data: bytes) -> None:
    assert read_csv(written(tmp_path, data)) == (Newcomer("ann"), Newcomer("ben"))


@pytest.mark.parametrize(("data", "why"), BAD.values(), ids=BAD)
def test_bad_lists_are_refused_with_line_and_reason(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_csv(written(tmp_path, data), taken=("eva",))


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read_csv(written(tmp_path, b"name\nAnn\nann\nBen\nann\n" + b"X\n" * 4))
    assert "line 2: 'Ann'" in error.value.message
    assert "line 5: ann is already in line 3" in error.value.message
    assert error.value.message.endswith("; and 2 more")


@pytest.mark.parametrize("path", ["missing.csv", "."])
def test_no_file(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotFoundError):
        read_csv(tmp_path / path)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_csv(written(tmp_path, b"name\n" * 400_000))


def test_the_first_line_may_give_roles(tmp_path: Path) -> None:
    people = read_csv(written(tmp_path, b"name,role\nann,teacher\nben,assistant\n"))
    assert [one.role for one in people] == [Role.TEACHER, Role.ASSISTANT]


def test_names_that_are_typed() -> None:
    assert checked(["ann", "ben"], Role.ASSISTANT) == (
        Newcomer("ann", Role.ASSISTANT),
        Newcomer("ben", Role.ASSISTANT),
    )
    with pytest.raises(UsageError, match="'ann': is named twice"):
        checked(["ann", "ben", "ann"])
    with pytest.raises(UsageError, match="'Ann' is not"):
        checked(["Ann"])


def test_people_by_number() -> None:
    assert [one.name for one in counted(3, ["student02"])] == ["student01", "student03", "student04"]
    assert len({one.name for one in counted(MOST, [])}) == MOST
    for count in (0, MOST + 1):
        with pytest.raises(LabError, match="must be between"):
            counted(count, [])
