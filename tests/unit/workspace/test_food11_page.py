"""docs/food11.md shows what differs between the scripts of Food-11, and only that."""

from __future__ import annotations

import difflib
import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs/food11.md").read_text()


@pytest.mark.parametrize(
    ("title", "one", "other"),
    [
        ("From Lightning to Ray Train", "train_lightning.py", "train_ray.py"),
        ("From Ray Train to Ray Tune", "train_ray.py", "tune_ray.py"),
    ],
)
def test_the_page_shows_every_difference_each_with_a_sentence(title: str, one: str, other: str) -> None:
    section = re.split(r"^## ", PAGE.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]
    parts = re.split(r"```diff\n(.*?)\n```", section, flags=re.DOTALL)

    assert parts[1::2] == hunks(one, other)
    assert all(text.strip().endswith(".") for text in parts[:-1:2])


def hunks(one: str, other: str) -> list[str]:
    """What differs between two scripts, with a line around it, as `diff` writes it."""
    before, after = ((ROOT / "workspace/food11" / name).read_text().splitlines() for name in (one, other))
    found: list[list[str]] = []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        if line.startswith("@@"):
            found.append([])
        else:
            found[-1].append(line.rstrip())
    return ["\n".join(hunk) for hunk in found]
