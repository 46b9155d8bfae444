"""A search with Ray Tune over Food-11 in any lab: the same test for every runtime."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from lab.ext.course.datasets.getting import PICTURES
from tests.e2e.harness import PATIENCE, ROOT, Shell
from tests.waiting import eventually

FOLDER = ROOT / "workspace" / "food11"
TRIALS, EPOCHS = 5, 6


def pictures(shell: Shell, of_each: int = PICTURES) -> str:
    """Drawn pictures of food, as many as lessons draw: the labs of a home share them. Their folder."""
    drawn = shell.labctl("lesson", "data", "food11", "--synthetic", str(of_each), "--json").document
    return str(drawn["dataset"]["folder"])


def of_the_cluster(row: Mapping[str, Any]) -> bool:
    """Whether this is an actor that Ray starts once for all jobs, whichever came first; it takes nothing."""
    return bool(row.get("is_detached")) and row.get("required_resources") == {}


def holders(shell: Shell, job: str) -> list[str]:
    """What a job still holds in Ray: actors that live, placement groups that are not removed."""
    ray_job = shell.lab.api.get(f"/api/jobs/{job}")["job_id"]
    held = []
    for kind, key, gone in (("actors", "job_id", "DEAD"), ("placement_groups", "creator_job_id", "REMOVED")):
        rows = shell.lab.api.rows(kind, dict)
        held += [
            str(row)
            for row in rows
            if row[key] == ray_job and row["state"] != gone and not of_the_cluster(row)
        ]
    return held


class SearchTests:
    """What a search must do. `shell` is a lab that is up, with two GPUs."""

    def test_a_search_loses_a_node_and_still_ends_all_its_trials_and_holds_nothing_after(
        self, shell: Shell
    ) -> None:
        pictures(shell)
        settings = ("--samples", str(TRIALS), "--epochs", str(EPOCHS), "--cpus", "1")
        argv = ("submit", "--detach", "--json", "--", "python", "tune_ray.py", *settings)
        job = str(shell.labctl(*argv, cwd=FOLDER).document["submission_id"])
        fault = ("fault-inject", shell.where(job), "--job", job, "--detach", "--timeout", "3m")
        shell.labctl(*fault, timeout=2 * PATIENCE)
        shell.succeeds(job, 3 * PATIENCE)

        reached: dict[str, list[float]] = defaultdict(list)
        attempts: dict[str, int] = defaultdict(int)
        for run in shell.lab.history(job).runs:
            for attempt in run.attempts:
                epochs = [report.progress for report in attempt.reports if report.progress is not None]
                attempts[run.name] += 1
                assert epochs == sorted(set(epochs))
                if epochs and reached[run.name]:
                    assert epochs[0] <= reached[run.name][-1] + 1, "an epoch was left out"
                    assert epochs[0] > 1, "it began with epoch 1 again"
                reached[run.name] += epochs
        assert len(reached) == TRIALS
        assert max(attempts.values()) > 1, "no trial was on the node that was lost"
        assert any(max(epochs) == EPOCHS for epochs in reached.values())

        log = shell.lab.jobs.logs(job)
        assert log.count("trained to the end") + log.count("stopped early\n") == TRIALS
        summed = re.search(r"trials: (\d+), stopped early: (\d+)\nepochs: (\d+) of the (\d+)", log)
        assert summed is not None
        assert [int(summed[1]), int(summed[4])] == [TRIALS, TRIALS * EPOCHS]
        assert 0 < int(summed[2]) < TRIALS
        assert int(summed[3]) < TRIALS * EPOCHS
        eventually(lambda: not holders(shell, job), PATIENCE, f"job {job} holds nothing any more")
