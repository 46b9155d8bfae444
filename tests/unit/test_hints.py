"""No hint costs a person more than what it mends."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT

DELETES_ALL = {
    "lab/cli/commands/lab.py": "the option itself",
    "lab/runtime/local/runtime.py": "of whoever asked for it, where containers hold the objects",
    "lab/flows/traces.py": "of whoever asked for all of labctl to be removed, with `--data`",
    "lab/lab.py": "of whoever asked for it, in a notebook",
    "lab/ext/course/lessons/catalogue/lesson_09.py": "says what it deletes",
}
"""Files that speak of `down --volumes`, and why they may: it deletes every checkpoint."""


@pytest.mark.parametrize("folder", ["lab", "workspace"])
def test_deleting_every_checkpoint_is_advice_to_nobody_who_wants_less(folder: str) -> None:
    speaking = {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if "--volumes" in path.read_text(encoding="utf-8")
    }
    assert speaking <= DELETES_ALL.keys(), "advise a smaller way"
