"""Submits a job that died with its head again, so that it resumes: Ray itself does not do that.

Ray Train's controller and the job's entrypoint run on the head, unless the entrypoint was submitted with CPUs
or GPUs of its own. When the head is killed they are gone, also where the cluster itself survives. The job is
then submitted once more, as it was; its run gets the name of the one that was lost, so that Ray Train finds
that one's checkpoints.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from lab.cluster.recipes import recipe_folder
from lab.cluster.submission import RESUME_VARIABLE, RESUMES
from lab.errors import LabError
from lab.evidence.ledger import Event
from lab.flows.recovery.patience import follow_to_end
from lab.flows.recovery.request import Moment, OnMoment, outages
from lab.flows.recovery.watch import Watch


def resubmit(watch: Watch, on_moment: OnMoment) -> Watch:
    """Submit the watched job again, follow it to its end, and return the watch on it.

    Raises RefusedError, ClusterError, WaitTimeoutError.
    """
    jobs, run = watch.lab.jobs, watch.run
    job = jobs.get(watch.submission_id)
    if not job.final:  # for Ray it still runs, and its resources are taken
        with contextlib.suppress(LabError):
            jobs.stop(watch.submission_id)
    again = jobs.submit_again(
        watch.submission_id,
        {RESUMES: watch.submission_id},
        recipe_folder(job.recipe),
        environment={RESUME_VARIABLE: run.name} if run else {},
    )
    message = f"job {watch.submission_id} died with its head; submitted again as {again}"
    on_moment(Moment("resubmitted", None, message))
    second = Watch(watch.lab, again, watch.clock, outages(on_moment))
    follow_to_end(second)
    return second


def joined(first: Watch, later: Sequence[Watch]) -> tuple[Event, ...]:
    """The events of all jobs as those of the first: a run of one name goes on with the later attempts."""
    names = {run.name for run in first.history.runs}
    more = (e for watch in later for e in watch.events if e.run in names)
    return (*first.events, *(replace(e, job=first.submission_id) for e in more))


def died(watch: Watch) -> bool:
    """True if the job ended without success."""
    return watch.job is not None and watch.job.final and watch.job.status != "SUCCEEDED"
