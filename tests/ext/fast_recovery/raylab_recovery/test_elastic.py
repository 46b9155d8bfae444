"""That an elastic run knows at once which nodes it can train on."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_patches import connects
from raylab_recovery import elastic

ROOM = {"n0": {"CPU": 1.0}, "n1": {"CPU": 1.0}}


class ElasticCluster:
    """A policy, the coordinator it asks, and the nodes that it sees."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, 0
        self.reserved: dict[str, dict[str, float]] = dict(ROOM)
        self.rows = [
            {"NodeID": f"n{i}", "Alive": True, "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": i}
            for i in range(3)
        ]
        self.dead: set[int] = set()
        self.error: Exception | None = None
        policy_class: Any = type("Policy", (), {})
        elastic.look_again(
            policy_class, self.ask, lambda: self.rows, lambda _, port: port not in self.dead, lambda: self.now
        )
        self.policy = policy_class()

    def ask(self, policy: Any) -> dict[str, dict[str, float]]:
        assert policy is self.policy
        self.asked += 1
        if self.error:
            raise self.error
        return self.reserved

    def look(self) -> Any:
        self.now += 1
        return self.policy._get_reserved_resources()


def test_every_node_with_room_counts() -> None:
    assert ElasticCluster().look() == ROOM


def test_a_node_that_takes_no_connection_does_not_count_although_ray_says_that_it_lives() -> None:
    cluster = ElasticCluster()
    cluster.dead = {1}
    assert cluster.look() == {"n0": {"CPU": 1.0}}
    cluster.dead = set()
    assert cluster.look() == ROOM


def test_a_node_that_ray_has_given_up_does_not_count() -> None:
    cluster = ElasticCluster()
    cluster.rows[0]["Alive"] = False
    assert cluster.look() == {"n1": {"CPU": 1.0}}


def test_within_a_moment_it_is_asked_once() -> None:
    cluster = ElasticCluster()
    first = cluster.look()
    cluster.now += elastic.INTERVAL_SECONDS / 2
    assert cluster.policy._get_reserved_resources() is first
    assert cluster.asked == 1


def test_what_cannot_be_told_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ElasticCluster()
    cluster.error = TimeoutError("no answer")
    assert cluster.look() is None
    cluster.error = None
    assert cluster.look() == ROOM
    assert "no answer" in capsys.readouterr().out


def test_a_port_that_is_listened_on_takes_a_connection_and_another_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert connects("127.0.0.1", port)
    assert not connects("127.0.0.1", port)


@pytest.mark.parametrize("enabled", [True, False])
def test_only_elastic_runs_are_changed_and_rays_policy_has_what_is_changed(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    from ray.train.v2._internal.execution.scaling_policy.elastic import ElasticScalingPolicy

    original = ElasticScalingPolicy._get_reserved_resources
    monkeypatch.setattr(ElasticScalingPolicy, "_get_reserved_resources", original)  # put back afterwards
    context = SimpleNamespace(scaling_config=SimpleNamespace(elasticity_enabled=enabled))
    elastic.Elastic().after_controller_start(context)
    assert (ElasticScalingPolicy._get_reserved_resources is original) is not enabled
