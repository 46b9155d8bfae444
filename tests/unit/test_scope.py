"""docs/scope.md: every folder has a row, and no row is larger than it says."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "scope.md").read_text(encoding="utf-8")

SCREEN = 60
"""Lines of a page that is read at one look."""


def rows() -> list[tuple[str, tuple[str, ...], int, int]]:
    """Feature, places, budget and the most lines of today, of each row."""
    pattern = r"^\| (?:P\d|library|around) \| (.+?) \| (.+?) \| ([\d,]+) \| ([\d,]+) \|$"
    return [
        (
            feature,
            tuple(re.findall(r"`([^`]+)`", places)),
            *(int(n.replace(",", "")) for n in (budget, today)),
        )
        for feature, places, budget, today in re.findall(pattern, TEXT, re.MULTILINE)
    ]


ROWS = rows()


def sizes() -> Counter[str]:
    """Lines of Python below each place; a file counts for the longest one that it is in."""
    places = sorted((place for _, named, _, _ in ROWS for place in named), key=len, reverse=True)
    lines: Counter[str] = Counter()
    for top in {place.partition("/")[0] for place in places}:
        for path in (ROOT / top).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            place = next(place for place in places if name == place or name.startswith(f"{place}/"))
            lines[place] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


SIZES = sizes()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].partition(":")[0])
def test_no_row_is_larger_than_today(row: tuple[str, tuple[str, ...], int, int]) -> None:
    feature, places, budget, today = row
    assert sum(SIZES[place] for place in places) <= max(today, budget), feature
    assert today <= max(budget, sum(SIZES[place] for place in places) / 0.97), f"{feature}: it is smaller now"


def test_every_place_is_there_and_has_one_row() -> None:
    places = [place for _, named, _, _ in ROWS for place in named]
    assert [place for place in places if not (ROOT / place).exists()] == []
    assert len(places) == len(set(places))


def test_every_folder_with_code_has_a_row() -> None:
    around = {path.parent.name for path in ROOT.glob("*/*.py")} - {"tests"}
    assert around <= {place.partition("/")[0] for _, named, _, _ in ROWS for place in named}


def test_it_is_one_screen_and_where_contributing_begins() -> None:
    assert len(TEXT.splitlines()) <= SCREEN
    begins = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert "(docs/scope.md)" in begins


if __name__ == "__main__":
    for feature, places, budget, today in ROWS:
        print(f"{sum(SIZES[place] for place in places):,} of {budget:,} (today {today:,}): {feature}")
