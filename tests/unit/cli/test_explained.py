"""submit, jobs show: why a job failed, where that is known."""

from __future__ import annotations

import dataclasses

import pytest

from lab.cluster.allocation import Waiting
from tests.unit.cli.fakes import Labctl
from tests.unit.data.failures import FAILED, LOGS
from tests.unit.fakes import job

EXPLAINED = {
    "cause": "tuner-trainer",
    "title": "tune.Tuner was given a trainer of Ray Train; it takes a function",
    "todo": "give it a function that makes the trainer and calls its fit()",
    "docs": "docs/troubleshooting.md#tunetuner-was-given-a-trainer-of-ray-train-it-takes-a-function",
    "line": "ray.tune.error.TuneError: Improper 'run' - not string nor trainable.",
}


@pytest.fixture
def tuned(labctl: Labctl) -> None:
    """A job that failed as `tune.Tuner(trainer)` does, and one that becomes so."""
    labctl.jobs.text = LOGS["tuner-trainer"][0]
    labctl.jobs.ends = job("job-1", "FAILED", exit_code=1, message=FAILED)
    labctl.jobs.put(labctl.jobs.ends)


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_known_failure_is_explained_at_the_end_of_the_job(labctl: Labctl, quiet: list[str]) -> None:
    result = labctl(*quiet, "submit", "digits")
    assert result.exit_code == 9
    assert result.stderr.endswith(
        f"  -> its whole log: labctl jobs logs job-1\ncause: {EXPLAINED['title']} ({EXPLAINED['line']})\n"
        f"  -> {EXPLAINED['todo']}; {EXPLAINED['docs']}\n"
    )
    assert labctl.json("submit", "digits", code=9)["explanation"] == EXPLAINED


@pytest.mark.usefixtures("tuned")
def test_job_show_explains_a_known_failure(labctl: Labctl) -> None:
    shown = labctl.ok("jobs", "show", "job-1")
    assert f"cause       {EXPLAINED['title']} ({EXPLAINED['line']})\n" in shown
    assert f"what to do  {EXPLAINED['todo']}; {EXPLAINED['docs']}\n" in shown
    assert labctl.json("jobs", "show", "job-1")["explanation"] == EXPLAINED


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("status", ["SUCCEEDED", "STOPPED", "RUNNING"])
def test_only_a_failed_job_is_explained(labctl: Labctl, status: str) -> None:
    labctl.jobs.put(job("job-1", status, message=FAILED))
    assert "cause " not in labctl.ok("jobs", "show", "job-1")
    assert labctl.json("jobs", "show", "job-1")["explanation"] is None


def test_job_show_explains_a_job_that_waits_for_ever(labctl: Labctl) -> None:
    waits = Waiting("job-1", "others", "entrypoint", {"GPU": 2.0}, 1, "no node has 2 GPU; the largest has 1")
    labctl.jobs.put(job("job-1", "PENDING"))
    labctl.stub("waiting_jobs", {"job-1": waits})
    assert labctl.json("jobs", "show", "job-1")["explanation"] is None
    labctl.stub("waiting_jobs", {"job-1": dataclasses.replace(waits, kind="infeasible")})
    shown = labctl.json("jobs", "show", "job-1")["explanation"]
    assert (shown["cause"], shown["line"]) == ("infeasible", waits.reason)
