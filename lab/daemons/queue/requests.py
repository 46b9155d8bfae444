"""Bodies of POST /jobs and /dry-run. Unknown fields are refused.

    {"queue": "NAME" or "NAMESPACE/NAME", "command": ["python", "train.py"],
     "package": SHA-256 of a zip that was PUT before, or "", "runtime_env": {}, "metadata": {"name": "text"},
     "num_cpus": 0, "num_gpus": 0,
     "workers": {"count": 2, "min_count": 1 or null, "cpus": 4, "gpus": 1, "memory": BYTES} or null,
     "priority_class": "", "max_time": SECONDS or null,
     "owner": "", "recipe": "", "ranks": "", "preemption_grace": 20, "enforce": false}

Only `queue` and `command` are required. `num_cpus` and `num_gpus` are of the entrypoint.
"""

from __future__ import annotations
