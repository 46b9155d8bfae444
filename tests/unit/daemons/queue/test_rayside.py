"""Ray as the controller sees it: jobs that died with their head are jobs that it does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from lab.cluster.api import RayApi
from lab.cluster.jobs import Job
from lab.cluster.node_sizes import NodeSizes
from lab.daemons.queue.rayside import Cluster
from lab.store import Store

RUNS = Job("j1", "RUNNING", "python train.py", "", 0.0, None, "n", None, {})


class Known:
    """Jobs of which one is known."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def find(self, submission_id: str) -> Job | None:
        return self.job if submission_id == self.job.submission_id else None


def cluster(job: Job) -> Cluster:
    made = Cluster(RayApi("http://127.0.0.1:1", ""), cast(Store, None), NodeSizes("", ""))
    made._jobs = Known(job)  # type: ignore[assignment]
    return made


def test_a_job_that_died_with_its_head_is_unknown_so_that_its_quota_is_not_held_for_ever() -> None:
    assert cluster(RUNS).find("j1") == RUNS
    assert cluster(RUNS).find("j2") is None
    assert cluster(replace(RUNS, status="FAILED", lost=True)).find("j1") is None
    assert cluster(replace(RUNS, status="FAILED")).find("j1") is not None
