"""The training of a rung: submits it, and waits for the moment at which its rank is lost."""

from __future__ import annotations

from dataclasses import replace

from lab.cluster.recipes import find_recipe
from lab.ext.fast_recovery.ladder.plan import EPOCHS
from lab.ext.fast_recovery.ladder.rungs import Rung
from lab.flows.recovery import ended
from lab.host.clock import Clock, poll
from lab.host.quantities import plural
from lab.lab import Lab

RECIPE = "digits"
RANKS = 2
SAVE_EVERY = 12
"""Epochs from one report and checkpoint to the next: four seconds on two idle cores. The speed before the
loss is measured over as many, and stock Ray's controller takes up one report every 2 s."""

CHECKPOINTS = 1
"""Number of checkpoints after which the rank is lost: some seconds of training."""

EACH_STEP = "RAYLAB_EACH_STEP"
"""Environment variable of a job that lets the ledger have every step (raylab_steps)."""

START_SECONDS = 600.0
"""Deadline for a training to come so far."""

POLL_SECONDS = 0.25
"""Pause between two looks at it: a fast machine is soon through the epochs that are left."""


def submit(lab: Lab, rung: Rung, fault: str) -> str:
    """Submit the training of a rung, as long as the fault needs it, whose ledger has every step.

    Returns the job. Raises what Lab.submit_recipe raises.
    """
    chosen = find_recipe(RECIPE).tolerating(rung.way)
    lab.runtime.provide(chosen.packages)
    length = {"epochs": str(EPOCHS[fault]), "save-every": str(SAVE_EVERY)}
    made = chosen.submission({"workers": str(RANKS), **length, **rung.settings})
    counted = {"env_vars": {EACH_STEP: "1", **rung.environment}}
    return lab.submit(replace(made, runtime_env=counted)).submission_id


def wait_for_last_rank(lab: Lab, job: str, clock: Clock) -> str:
    """Return the service of the last rank, once all train and enough checkpoints are saved.

    Raises RefusedError for a job that has ended before, WaitTimeoutError.
    """

    def last_rank() -> str | None:
        known = lab.jobs.get(job)
        if known.final:
            raise ended(lab, known, f"labctl jobs logs {job}", "its rank could be lost")
        runs = lab.history(job).runs
        attempt = runs[-1].attempts[-1] if runs and runs[-1].attempts else None
        if attempt is None or len(attempt.nodes) < RANKS or len(runs[-1].checkpoints) < CHECKPOINTS:
            return None
        services = {node.node_id: node.service for node in lab.api.nodes()}
        return services.get(attempt.nodes[max(attempt.nodes)])

    return poll(
        last_rank, timeout=START_SECONDS, waited_for=f"{plural(CHECKPOINTS, 'checkpoint')} of job {job}",
        clock=clock, every=POLL_SECONDS, hint=f"labctl jobs logs {job}",
    )  # fmt: skip
