"""`ray start` as the local runtime uses it."""

from __future__ import annotations

from typing import Any

import pytest

from raylab_probe import node


def test_a_head_starts_on_its_address_although_a_raylet_of_the_one_before_still_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray._private import ray_constants, services
    from ray.scripts import scripts

    seen: list[Any] = []
    for module, name in (
        (ray_constants, "ENABLE_RAY_CLUSTER"),
        (ray_constants, "DEFAULT_RUNTIME_ENV_DIR_NAME"),
        (services, "resolve_ip_for_localhost"),
        (services, "find_bootstrap_address"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    monkeypatch.setattr("sys.argv", ["ray", "start", "--head"])
    monkeypatch.setattr(scripts, "main", lambda: seen.append(services.find_bootstrap_address("/tmp/ray")))

    node.main()

    assert seen == [None]
    assert services.resolve_ip_for_localhost("127.0.0.1") == "127.0.0.1"
