"""The one table of who may do what in a class, and the function that decides by it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Role(str, Enum):
    """Role of a person in the class."""

    STUDENT = "student"
    ASSISTANT = "assistant"
    TEACHER = "teacher"


class Whose(str, Enum):
    """Relation of a person to what she acts on."""

    OWN = "her own"
    OTHERS = "another person's"
    SHARED = "the lab's"
    """Belongs to nobody of the class: jobs of the teacher's labctl, the queues, the shared data."""


class Action(str, Enum):
    """Act on a job, on the queues or on stored objects."""

    LIST = "see name, queue and state of a job"
    SUBMIT = "submit a job"
    READ = "read a job's log, and why it waits"
    STOP = "stop a job, hold it, resume it"
    DELETE = "delete a job that has ended"
    BREAK = "inject a fault into a job"
    END_SERVER = "end a JupyterLab server"
    SEE_QUEUES = "see queues, quotas, nodes and health"
    CHANGE_QUEUES = "change queues and quotas, close a node"
    READ_CLUSTER = "read Ray's tasks, actors and placement groups"
    READ_OBJECTS = "read checkpoints and other stored objects"
    WRITE_OBJECTS = "write and delete stored objects"


NOBODYS: frozenset[Whose] = frozenset()
OWN = frozenset({Whose.OWN})
SHARED = frozenset({Whose.SHARED})
OWN_AND_SHARED = OWN | SHARED
ALL = frozenset(Whose)

TABLE: Mapping[Action, Mapping[Role, frozenset[Whose]]] = {
    action: dict(zip(Role, cells, strict=True))
    for action, *cells in (
        # action, student, assistant, teacher
        (Action.LIST, ALL, ALL, ALL),
        (Action.SUBMIT, OWN, OWN, ALL),
        (Action.READ, OWN, ALL, ALL),
        (Action.STOP, OWN, OWN, ALL),
        (Action.DELETE, OWN, OWN, ALL),
        (Action.BREAK, OWN, OWN, ALL),
        (Action.END_SERVER, OWN, OWN, ALL),
        (Action.SEE_QUEUES, SHARED, SHARED, SHARED),
        (Action.CHANGE_QUEUES, NOBODYS, NOBODYS, SHARED),
        (Action.READ_CLUSTER, NOBODYS, SHARED, SHARED),
        (Action.READ_OBJECTS, OWN_AND_SHARED, ALL, ALL),
        (Action.WRITE_OBJECTS, OWN, OWN, ALL),
    )
}
"""Action -> role -> whose things it may be done to."""


def allowed(role: Role, action: Action, whose: Whose) -> bool:
    """Decide if a person of this role may do this to a thing of hers, of another person or of the lab."""
    return whose in TABLE[action][role]


def relation(person: str, owner: str) -> Whose:
    """Relation of a person to the thing of `owner`, which is empty for the lab's."""
    if not owner:
        return Whose.SHARED
    return Whose.OWN if owner == person else Whose.OTHERS
