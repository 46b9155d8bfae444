from __future__ import annotations

import pytest

from lab.people.policy import ALL, TABLE, Action, Role, Whose, allowed, relation
from tests.conftest import ROOT

STUDENT, ASSISTANT, TEACHER = Role
OWN, OTHERS, SHARED = Whose

CELLS = """
LIST           own others shared | own others shared | own others shared
SUBMIT         own               | own               | own others shared
READ           own               | own others shared | own others shared
STOP           own               | own               | own others shared
DELETE         own               | own               | own others shared
BREAK          own               | own               | own others shared
END_SERVER     own               | own               | own others shared
SEE_QUEUES     shared            | shared            | shared
CHANGE_QUEUES  -                 | -                 | shared
READ_CLUSTER   -                 | shared            | shared
READ_OBJECTS   own shared        | own others shared | own others shared
WRITE_OBJECTS  own               | own               | own others shared
"""
"""Action, and whose things student, assistant and teacher may do it to, written by hand."""

EXPECTED = {
    (role, Action[line.split()[0]], whose): whose.name.lower() in cell.split()
    for line in CELLS.strip().splitlines()
    for role, cell in zip(Role, line.partition(" ")[2].split("|"), strict=True)
    for whose in Whose
}


@pytest.mark.parametrize(("role", "action", "whose"), EXPECTED)
def test_every_cell(role: Role, action: Action, whose: Whose) -> None:
    assert allowed(role, action, whose) == EXPECTED[role, action, whose]


def test_there_is_a_cell_for_everything() -> None:
    assert len(EXPECTED) == len(Role) * len(Action) * len(Whose)
    assert set(TABLE) == set(Action)


@pytest.mark.parametrize(("owner", "whose"), [("ann", OWN), ("ben", OTHERS), ("", SHARED)])
def test_relation_to_a_thing(owner: str, whose: Whose) -> None:
    assert relation("ann", owner) is whose


def test_nobody_may_do_more_than_who_teaches() -> None:
    for action, cells in TABLE.items():
        assert cells[STUDENT] <= cells[ASSISTANT] <= cells[TEACHER], action


def as_markdown() -> str:
    """The table as docs/class.md shows it."""
    head = ("action", *(role.value for role in Role))
    rows = [(action.value, *(_cell(cells[role]) for role in Role)) for action, cells in TABLE.items()]
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(whose: frozenset[Whose]) -> str:
    if whose == ALL:
        return "all"
    return ", ".join(kind.value for kind in Whose if kind in whose) or "-"


def test_the_documents_have_this_table() -> None:
    page = (ROOT / "docs" / "class.md").read_text(encoding="utf-8")
    assert as_markdown() in page, f"put this into docs/class.md:\n{as_markdown()}"


def test_the_table_in_words() -> None:
    lines = as_markdown().splitlines()
    assert lines[0] == "| action | student | assistant | teacher |"
    assert "| submit a job | her own | her own | all |" in lines
    assert "| change queues and quotas, close a node | - | - | the lab's |" in lines
