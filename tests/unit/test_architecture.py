"""docs/architecture.md shows the rooms of lab/ as they are, and names files that there are."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.conftest import ROOT
from tests.unit.test_layers import LAYERS, arrows

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rooms() -> dict[str, set[str]]:
    """Each room of lab/ and those that it imports of."""
    needs: dict[str, set[str]] = {room: set() for layer in LAYERS for room in layer}
    for importer, imported, _ in arrows():
        if importer.startswith("raylab_"):  # the probe's, which may be called like a room
            continue
        one, other = ((*module.split("."), "lab")[1] for module in (importer, imported))
        if one in needs and other in needs and one != other:
            needs[one].add(other)
    return needs


def reached(room: str, needs: Mapping[str, set[str]], without: str = "") -> set[str]:
    """All that a room needs, the rooms between included; one of its own arrows may be left out."""
    reached: set[str] = set()
    ahead = [other for other in needs[room] if other != without]
    while ahead:
        other = ahead.pop()
        if other not in reached:
            reached.add(other)
            ahead += needs[other]
    return reached


def picture(needs: Mapping[str, set[str]]) -> str:
    """The rooms as a Mermaid flow chart, by its transitive reduction."""
    lines = [
        f"  {room} --> {other}"
        for layer in reversed(LAYERS)
        for room in sorted(layer)
        for other in sorted(needs[room])
        if other not in reached(room, needs, without=other)
    ]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def test_the_picture_is_drawn_from_the_code() -> None:
    drawn = picture(rooms())
    assert drawn in PAGE, f"put this into docs/architecture.md:\n{drawn}"


def test_an_arrow_that_others_make_is_left_out() -> None:
    needs = {room: set[str]() for layer in LAYERS for room in layer}
    needs |= {"cli": {"flows", "host"}, "flows": {"host"}}
    assert picture(needs).splitlines()[2:-1] == ["  cli --> flows", "  flows --> host"]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:lab|compose)/[\w./]+)`", PAGE))))
def test_a_file_that_it_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_it_says_what_is_in_every_room() -> None:
    table = PAGE.split("| room | what is in it |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert named == {room for layer in LAYERS for room in layer} | {"probe"}
