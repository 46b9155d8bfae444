"""Job in the measured lab: prints a JSON line with seconds for each actor.

`start`: from its creation to the answer of its first method; `imports`: to import in it what a rank imports;
`both`: together. Each actor has environment variables of its own, so that Ray cannot reuse an idle process.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ray

REST_SECONDS = 2.0
"""Pause before each actor, so that the job's start or the last actor's end does not disturb it."""


class Actor:
    """A process of a node that trains."""

    def answer(self) -> bool:
        return True

    def import_all(self) -> float:
        begin = time.perf_counter()
        import pytorch_lightning  # noqa: F401
        import ray.train.lightning
        import ray.train.torch  # noqa: F401
        import torch  # noqa: F401

        return time.perf_counter() - begin


def main(count: int) -> None:
    ray.init(log_to_driver=False)
    remote: Any = ray.remote(num_cpus=1)(Actor)
    for number in range(count):
        time.sleep(REST_SECONDS)
        begin = time.perf_counter()
        actor = remote.options(runtime_env={"env_vars": {"ACTOR_NUMBER": str(number)}}).remote()
        ray.get(actor.answer.remote())
        started = time.perf_counter() - begin
        imports = ray.get(actor.import_all.remote())
        both = time.perf_counter() - begin
        print(json.dumps({"start": started, "imports": imports, "both": both}), flush=True)
        ray.kill(actor)


if __name__ == "__main__":
    main(int(sys.argv[1]))
