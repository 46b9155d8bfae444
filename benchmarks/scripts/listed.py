"""Job in the measured lab: lets Ray's list of jobs grow to so many, all of which have ended well."""

from __future__ import annotations

import asyncio
import sys
import time

import ray
from ray._private.worker import global_worker
from ray.dashboard.modules.job.common import JobInfo, JobInfoStorageClient, JobStatus

AT_ONCE = 50


async def main(first: int, last: int) -> None:
    """Write the records of these jobs to Ray's GCS, as its job manager does."""
    storage = JobInfoStorageClient(global_worker.gcs_client)
    now = int(time.time() * 1000)
    for begin in range(first, last, AT_ONCE):
        infos = {
            f"grown-{n:06d}": JobInfo(
                JobStatus.SUCCEEDED,
                "python train.py --epochs 20",
                start_time=now + n,
                end_time=now + n + 1000,
                metadata={"job_submission_id": f"grown-{n:06d}", "raylab_recipe": "digits"},
                runtime_env={"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"},
                driver_exit_code=0,
            )
            for n in range(begin, min(begin + AT_ONCE, last))
        }
        await asyncio.gather(*(storage.put_info(name, info) for name, info in infos.items()))


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
