"""The pictures of README: drawn from what was recorded, and as they lie in docs/pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks.pictures import FOLDER, ROOT, TITLES, gaps, in_words, pictures
from lab.ext.fast_recovery.ladder.rungs import RUNGS

PAGE = (ROOT / "docs" / "survivors.md").read_text(encoding="utf-8")
DRAWN = pictures()


def test_the_figures_are_those_of_the_page_about_the_ladder() -> None:
    seconds = gaps(PAGE)
    assert list(seconds) == [rung.name for rung in RUNGS] == list(TITLES)
    for name, value in seconds.items():
        assert f"{value:g}" in PAGE.split(f"\n{name} ", 1)[1].splitlines()[0]


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_picture_is_the_one_that_is_drawn_now(name: str) -> None:
    file = FOLDER / name
    assert file.read_text(encoding="utf-8") == DRAWN[name], "run: make pictures"
    assert file.stat().st_size < 150_000


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_picture_is_well_formed_and_loads_nothing_from_elsewhere(name: str) -> None:
    root = ET.fromstring(DRAWN[name])
    assert root.tag.endswith("svg")
    assert "url(http" not in DRAWN[name]
    assert "@import" not in DRAWN[name]


def test_a_picture_says_in_words_what_it_shows() -> None:
    assert in_words(gaps(PAGE)).count(" s") >= len(RUNGS)
