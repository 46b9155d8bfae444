"""JSON documents of --json of what a class has handed in; as `documents`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.api import shown_here
    from lab.flows.lessons.handed_in import HandedIn
    from lab.people.progress import Progress, Standing


def collected(handed: Iterable[HandedIn]) -> shown_here.ShownCollection:
    """Reports that were handed in, and what became of each."""
    return {
        "reports": [
            {
                "file": one.file, "person": one.person or None,
                "lessons": [_standing(lesson) for lesson in one.lessons], "problems": [*one.problems],
            }
            for one in handed
        ]
    }  # fmt: skip


def progress(kept: Progress) -> shown_here.ShownProgress:
    """The lessons of the people of a class."""
    return {
        "collected_at": kept.collected_at or None,
        "lessons": [*kept.lessons],
        "people": {name: [_standing(one) for one in own] for name, own in kept.people.items()},
    }


def _standing(one: Standing) -> shown_here.ShownStanding:
    return {"lesson": one.lesson, "state": one.state, "at": one.at, "reason": one.reason}
