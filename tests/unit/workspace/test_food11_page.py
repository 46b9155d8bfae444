"""docs/food11.md shows what differs between the scripts of Food-11, as they are."""

from __future__ import annotations

import difflib
import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs/food11.md").read_text()


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def test_the_page_shows_every_difference_of_the_first_two_each_with_a_sentence() -> None:
    parts = re.split(r"```diff\n(.*?)\n```", section("From Lightning to Ray Train"), flags=re.DOTALL)

    assert parts[1::2] == hunks("train_lightning.py", "train_ray.py")
    assert all(text.strip().endswith(".") for text in parts[:-1:2])


def test_the_page_shows_the_third_script_from_its_import_to_its_end() -> None:
    script = (ROOT / "workspace/food11/tune_ray.py").read_text()
    parts = re.split(r"```python\n(.*?)\n```", section("From Ray Train to Ray Tune"), flags=re.DOTALL)
    shown = [script.index(part) for part in parts[1::2]]

    assert shown == sorted(shown)
    assert script.endswith(f'{parts[-2]}\n\n\nif __name__ == "__main__":\n    main()\n')
    assert all(text.strip().endswith(".") for text in parts[:-1:2])


def hunks(one: str, other: str) -> list[str]:
    """What differs between two scripts, with a line around it, as `diff` writes it."""
    before, after = ((ROOT / "workspace/food11" / name).read_text().splitlines() for name in (one, other))
    hunks: list[list[str]] = []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        if line.startswith("@@"):
            hunks.append([])
        else:
            hunks[-1].append(line.rstrip())
    return ["\n".join(hunk) for hunk in hunks]
