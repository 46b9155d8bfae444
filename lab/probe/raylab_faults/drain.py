"""Tells Ray that a node is about to be taken away, as an autoscaler does when a cloud says so.

    python -m raylab_faults.drain NODE_ID SECONDS

From then on Ray (2.60) places nothing there, and tells whoever asks that the node ends in SECONDS. It ends no
node. Prints one JSON object as `raylab_faults.rank` does: `first` and `last` stand around the announcement;
the exit code is 3 when Ray refuses it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

MESSAGE = "labctl fault-inject --fault drain"


def head() -> Any:
    """A client of the cluster's GCS. Raises what Ray raises where it does not answer."""
    from ray._raylet import GcsClient

    return GcsClient(address=os.environ["RAY_ADDRESS"])


def main(argv: Sequence[str], client: Any = None) -> int:
    """Announce it, print the answer, return the exit code."""
    from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION

    node_id, seconds, client = argv[0], float(argv[1]), client or head()
    first = time.time()
    deadline_ms = int((first + seconds) * 1000)
    done, problem = client.drain_node(node_id, DRAIN_NODE_REASON_PREEMPTION, MESSAGE, deadline_ms)
    print(json.dumps({"done": done, "problem": problem, "first": first, "last": time.time()}))
    return 0 if done else 3


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
