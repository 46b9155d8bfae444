"""Python that labctl runs as a job of its own, for what no call of the Jobs API does (ray 2.60)."""

from __future__ import annotations

from collections.abc import Mapping

HELPER = "raylab-helper-"
"""Prefix of the ids of these jobs, which no list has. Ray keeps them: of one that it was told to forget it
soon writes down that its actor died (ray 2.60)."""

GIVE_UP = (
    "import asyncio, ray, sys; ray.init(logging_level='error'); "
    "from ray.dashboard.modules.job.common import JobInfoStorageClient as Jobs, JobStatus; "
    "jobs, job = Jobs(ray._private.worker.global_worker.gcs_client), sys.argv[1]; "
    "asyncio.run(jobs.put_status(job, JobStatus.STOPPED, 'Job was stopped while it waited.')); "
    "ray.kill(ray.get_actor('_ray_internal_job_actor_' + job, namespace='SUPERVISOR_ACTOR_RAY_NAMESPACE'))"
)
"""Ends the actor that would run a job, as no call of the Jobs API does (ray 2.60). The status comes first: so
Ray takes the actor's end for expected."""

RELEASE = (
    "import ray, sys; from ray._raylet import PlacementGroupID as Id; "
    "from ray.util.placement_group import PlacementGroup, remove_placement_group; "
    "ray.init(logging_level='error'); "
    "[remove_placement_group(PlacementGroup(Id.from_hex(one))) for one in sys.argv[1:]]"
)
"""Removes placement groups. Ray (2.60) forgets that of a training which is stopped while its ranks wait:
it is placed once there is room, and holds that for ever."""


def is_helper(job: Mapping[str, object]) -> bool:
    """True for a job in Ray's list that is one of these."""
    return str(job.get("submission_id")).startswith(HELPER)
