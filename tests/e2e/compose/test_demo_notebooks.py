"""The demo notebooks that train, through Ray's client: on a lab of containers."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.demos import InteractiveDemos, value
from tests.e2e.harness import Shell
from tests.e2e.jupyter import Jupyter, Kernel


class TestDemoNotebooks(InteractiveDemos):
    @pytest.mark.rare
    def test_demo_3_tunes_three_trials_of_two_workers_and_runs_at_once_what_fits(
        self, shell: Shell, jupyter: Jupyter, kernel: Kernel
    ) -> None:
        super().test_demo_3_tunes_three_trials_of_two_workers_and_runs_at_once_what_fits(
            shell, jupyter, kernel
        )

    def test_the_lab_from_inside_is_the_lab_from_outside_but_for_what_only_the_host_can_do(
        self, shell: ContainerBench, kernel: Kernel
    ) -> None:
        kernel.run("from lab import Lab\nfrom lab.errors import LabError\nlab = Lab()")

        assert value(kernel, "[lab.name, lab.up().healthy, lab.wait_ready(60).healthy]") == [
            shell.name,
            True,
            True,
        ]
        outside = shell.lab.details()
        assert value(kernel, "lab.details().resources") == dict(outside.resources)
        assert value(kernel, "[lab.details().dashboard, lab.details().s3]") == [
            outside.dashboard,
            outside.s3,
        ]
        assert value(kernel, "[n.service for n in lab.details().nodes]") == [n.service for n in outside.nodes]
        refused = kernel.run("try:\n    lab.down()\nexcept LabError as error:\n    print(error.hint)")
        assert refused == f"on the host: labctl down --lab {shell.name}\n"
        assert shell.healthy()
