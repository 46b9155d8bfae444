"""Ray's own commands in every container where a person may open a shell (`docker exec`)."""

from __future__ import annotations

import pytest

from tests.e2e.compose.bench import ContainerBench, docker


@pytest.mark.parametrize(
    ("command", "says"),
    [("status", "CPU"), ("list nodes", "ALIVE"), ("timeline", "Trace file written to")],
)
@pytest.mark.parametrize("service", ["ray-head", "ray-worker-0", "jupyter"])
def test_rays_own_commands_find_the_cluster(
    box: ContainerBench, service: str, command: str, says: str
) -> None:
    both = f"cd /tmp && ray {command} 2>&1"  # Ray logs what it has written to stderr
    assert says in docker("exec", box.container(service), "sh", "-c", both, timeout=120)
