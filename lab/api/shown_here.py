"""What `--json` prints of this machine, of lessons, of a class and of manifests; as `shown`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from typing_extensions import NotRequired, TypedDict

from lab.api.shown import ShownAssignment


class ShownGpu(TypedDict):
    """A GPU or MIG slice. `memory` is 0 when unknown, `lab` null when it is free."""

    vendor: str
    index: int
    uuid: str
    name: str
    memory: int
    device_nodes: Sequence[str]
    lab: str | None


class PlannedGpu(ShownAssignment):
    """The GPU of a worker, and the device files that come with it."""

    device_nodes: Sequence[str]


class ShownPlan(TypedDict):
    """GPU of each worker."""

    vendor: str
    reason: str
    shared: bool
    assignments: Sequence[PlannedGpu]


class ShownSight(TypedDict):
    """A GPU as a worker sees it."""

    gpu: str
    name: str


class ShownWorker(TypedDict):
    """GPUs that a worker of a running lab sees. `ray_gpus` is null without a living node."""

    service: str
    planned: str | None
    sees: Sequence[ShownSight]
    ray_gpus: float | None
    problem: str


class ShownWorkers(TypedDict):
    """The workers of the lab, where it is up."""

    name: str
    up: bool
    workers: Sequence[ShownWorker]


class GpusHere(TypedDict):
    """What `labctl gpus` shows; `plan` is null where there is none."""

    gpus: Sequence[ShownGpu]
    problems: Sequence[str]
    plan: ShownPlan | None
    lab: ShownWorkers


class ShownImage(TypedDict):
    """One image that a lab needs; `size` is 0 when it is absent."""

    name: str
    role: str
    variable: str
    present: bool
    out_of_date: bool
    local_name: str
    size: int
    get: str


class ShownCheck(TypedDict):
    """One answer of `doctor`."""

    name: str
    outcome: Literal["passed", "failed", "skipped", "warning"]
    detail: str
    hint: str


class Diagnosis(TypedDict):
    """What `doctor` says."""

    ok: bool
    checks: Sequence[ShownCheck]


class BugReport(TypedDict):
    """What `doctor --report` says."""

    labctl: str
    installed: bool
    python: str
    system: str
    checks: Sequence[ShownCheck]


# People


class Invited(TypedDict):
    """A person who may use the class; her token, unless it is in a file."""

    name: str
    role: str
    token: NotRequired[str]


class ShownInvitations(TypedDict):
    """The class's address, and people."""

    gateway: str
    people: Sequence[Invited]


class ShownLink(TypedDict):
    """Somebody's sign-in link, unless it is in a file, and its end in seconds since the epoch."""

    name: str
    role: str
    until: float
    link: NotRequired[str]


class ShownLinks(TypedDict):
    """Sign-in links of a class."""

    links: Sequence[ShownLink]


class ShownPerson(TypedDict):
    """One of a class, with the number of her jobs that have not ended."""

    name: str
    role: str
    added_at: float
    token_at: float
    leaving: bool
    unfinished_jobs: int


class ShownPeople(TypedDict):
    """The people of a class."""

    people: Sequence[ShownPerson]


class ShownStanding(TypedDict):
    """A lesson of a person: passed, claimed (the lab has no trace of what its report says), or failed."""

    lesson: int
    state: str
    at: float
    reason: str


class ShownProgress(TypedDict):
    """Lessons by person, and the numbers of all there are; empty before the first `class collect`."""

    collected_at: float | None
    lessons: Sequence[int]
    people: Mapping[str, Sequence[ShownStanding]]
