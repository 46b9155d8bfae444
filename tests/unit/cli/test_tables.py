"""Tables that are drawn without rich look as rich draws them."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from lab.cli import render
from lab.cli.tables import Grid, shared_out

LAB = render.table(
    ("SERVICE", "STATE", "URL", "DETAIL"),
    [
        ("ray-head", "healthy", "http://127.0.0.1:8265", None),
        ("ray-worker-0", "exited", "", "it was killed"),
        ("queue", "absent", None, 7),
    ],
)
WIDTH = 59
"""Columns that LAB has."""


def by_rich(grid: Grid, width: int) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(grid)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("grid", [LAB, render.table(("JOB", "STATUS"), []), render.table(("A",), [("",)])])
def test_a_table_that_fits_is_as_rich_draws_it(grid: Grid) -> None:
    lines = grid.lines(WIDTH, colours=False)
    assert lines is not None
    assert list(lines) == by_rich(grid, WIDTH)


def test_a_state_has_its_colour_and_the_head_is_bold() -> None:
    lines = list(LAB.lines(WIDTH, colours=True) or ())
    assert lines[0].startswith("\x1b[1mSERVICE\x1b[0m")
    assert "\x1b[32mhealthy\x1b[0m" in lines[1]
    assert "\x1b[2mabsent\x1b[0m" in lines[3]
    plain = list(LAB.lines(WIDTH, colours=False) or ())
    assert [re.sub(r"\x1b\[\d+m", "", line).rstrip() for line in lines] == plain


@pytest.mark.parametrize("cell", ["\u4f60\u597d", "two\nlines", "a\ttab"])
def test_what_is_not_one_line_of_ascii_is_left_to_rich(cell: str) -> None:
    assert render.table(("A",), [(cell,)]).lines(400, colours=False) is None


def test_what_does_not_fit_is_left_to_rich_which_folds_it() -> None:
    assert LAB.lines(WIDTH - 1, colours=False) is None
    assert len(by_rich(LAB, WIDTH - 1)) > len(by_rich(LAB, WIDTH))


def test_what_has_one_word_folds_only_where_sentences_cannot_give_way() -> None:
    lines = by_rich(LAB, 53)
    assert "http://127.0.0.1:8265" in lines[1]
    assert [line[-6:].strip() for line in lines[2:4]] == ["it was", "killed"]


@pytest.mark.parametrize(
    ("room", "widths"),
    [(40, [10, 30]), (39, [10, 29]), (20, [10, 10]), (14, [10, 4]), (10, [5, 5]), (6, [3, 3])],
)
def test_the_widest_are_cut_and_give_way_to_words(room: int, widths: list[int]) -> None:
    assert shared_out([{10}, {4}], [10, 30], room) == widths


def test_a_word_that_is_too_long_folds_and_leaves_the_others_their_room() -> None:
    assert shared_out([{4}, {59}, {9}, {5}], [7, 59, 41, 5], 74) == [7, 31, 31, 5]


def test_where_the_longest_word_folds_the_next_ones_are_kept_whole() -> None:
    assert shared_out([{12}, {48, 31, 20}, {6}], [38, 48, 18], 58) == [13, 31, 14]
