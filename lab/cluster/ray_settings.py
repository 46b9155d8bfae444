"""Every setting of Ray that the lab changes: its stock value, the lab's, and why.

All are environment variables of the Ray nodes; jobs and their workers inherit them. With stock Ray only what
is PRIVATE stays. Patches are no settings: lab.cluster.patches has those. The loss of a node is noticed by one
of them, `liveness`: the head's own check (RAY_health_check_*) stays as it is, and notices after 15 to 65
seconds what that should miss. Sources of the stock values: `ray/_private/ray_constants.py`,
`ray_config_def.h` and `ray/train/v2/_internal/constants.py` of Ray 2.60.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Knob:
    """One environment variable. `stock` is what Ray does without it."""

    name: str
    value: str
    stock: str
    reason: str


DETECTION = (
    Knob(
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S",
        "0.1",
        "2.0",
        "the Train controller looks at its workers (and takes their checkpoints) ten times a second",
    ),
    Knob(
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S",
        "30",
        "600",
        "a rank that has not answered for so long is frozen; one that imports on a busy machine answers",
    ),
)
"""Settings for how fast the loss of a rank is noticed."""

RESTART = (
    Knob(
        "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S",
        "2",
        "30",
        "the process group of a dead rank cannot be shut down in order; do not wait for it",
    ),
    Knob(
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
        "0",
        "30",
        "survivors of a failed attempt have nothing to drain; the next attempt starts from the checkpoint",
    ),
    Knob(
        "RAY_gcs_create_placement_group_retry_min_interval_ms",
        "20",
        "100",
        "the surviving ranks' resources are free some 100 ms after they end: the next attempt's place is "
        "looked for again soon",
    ),
    Knob(
        "RAY_gcs_create_placement_group_retry_max_interval_ms",
        "100",
        "1000",
        "the pause before the next look grows up to this; each costs the head less than a millisecond",
    ),
    Knob(
        "RAY_raylet_report_resources_period_milliseconds",
        "20",
        "100",
        "nodes tell the head sooner what has become free; they say so only when it changes",
    ),
    Knob(
        "RAY_raylet_client_connect_timeout_milliseconds",
        "20",
        "1000",
        "the pause of a node that asks for its own object store a moment before that listens, as one in two "
        "does; it then starts a second later",
    ),
    Knob("RAY_raylet_client_num_connect_attempts", "500", "10", "as many pauses as make ten seconds"),
)
"""Settings for how fast training starts again once a loss was noticed."""

SURVIVORS = (
    Knob(
        "RAYLAB_TORCHFT_HEARTBEAT_MS",
        "400",
        "5000",
        "torchft: a rank whose beats were missing for so long is left out of the next step, "
        "unless the script names a time, as `digits` does",
    ),
    Knob(
        "RAYLAB_TORCHFT_JOIN_MS",
        "1000",
        "60000",
        "torchft: ranks that are alive, but late for a step, are waited for no longer than this",
    ),
    Knob(
        "RAYLAB_TORCHFT_TICK_MS",
        "20",
        "100",
        "torchft: the lighthouse looks that often for ranks that have come or gone",
    ),
)
"""Time-outs of torchft's lighthouse, which decides who takes the next step (raylab_recovery/survivors.py)."""

CONVENIENCE = (
    Knob("RAY_DEDUP_LOGS", "0", "1", "every line of every worker reaches the job's log as it was printed"),
    Knob("RAY_TRAIN_ENABLE_PRINT_PATCH", "0", "1", "what a training function prints is logged once"),
    Knob(
        "GRPC_ENABLE_FORK_SUPPORT",
        "0",
        "1",
        "gRPC's handlers of a fork now and then end the process that Ray starts for a client (`ray://`)",
    ),
    Knob("RUST_LOG", "warn", "info", "torchft writes several lines for each step of each rank otherwise"),
    Knob(
        "RAY_raylet_start_wait_time_s",
        "60",
        "30",
        "a node on a busy machine needs longer than that to join; what has not by then is started again",
    ),
)
"""Settings that have nothing to do with recovery, but change what Ray does."""

PRIVATE = (Knob("RAY_USAGE_STATS_ENABLED", "0", "1", "the lab reports to nobody"),)
"""Settings that hold with stock Ray too."""

KNOBS = DETECTION + RESTART + SURVIVORS + CONVENIENCE + PRIVATE


def environment(*, stock: bool = False) -> dict[str, str]:
    """The knobs as environment variables; with `stock` only those that hold then too."""
    return {knob.name: knob.value for knob in (PRIVATE if stock else KNOBS)}


def stock_environment() -> dict[str, str]:
    """The knobs that stock Ray goes without, each at its stock value: undoes `environment()`."""
    return {knob.name: knob.stock for knob in KNOBS if knob not in PRIVATE}
