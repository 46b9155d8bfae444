"""What the acceptance asks of GPUs that compute, on simulated ones: Gloo and the CPU stand in."""

from __future__ import annotations

import pytest

from lab.flows.acceptance.questions import all_reduce, recover, train
from tests.e2e.harness import PATIENCE, Bench


@pytest.mark.rare
def test_a_lab_trains_sums_and_recovers(bench: Bench) -> None:
    lab = bench.lab
    assert train(lab, 2, PATIENCE) == (True, "digits on 2 workers, each with its GPU")
    summed, said = all_reduce(lab, lab.gpu_plan, PATIENCE)
    assert (summed, said.partition(" at ")[0]) == (True, "gloo sums 256 MiB of 2 ranks right,")
    recovered, said = recover(lab, 2, 3 * PATIENCE)
    assert recovered, said
    assert all(job.final for job in lab.jobs.list())
