from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lab.errors import ServiceError

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The proxy with a Caddy that takes a moment for every change, and refuses one that leads to `bad`."""
    from lab.daemons.hub.routes import CaddyProxy, leading

    async def run(proxy: Any) -> None:
        proxy.taken = {}

    async def load(proxy: Any) -> None:
        await asyncio.sleep(0)
        targets = {spec: route["target"] for spec, route in proxy.routes.items()}
        if "bad" in targets.values():
            raise ServiceError("refused")
        proxy.taken = targets

    async def revive(proxy: Any) -> None:
        """There is no process."""

    monkeypatch.setattr(CaddyProxy, "_run", run)
    monkeypatch.setattr(CaddyProxy, "_load", load)
    monkeypatch.setattr(CaddyProxy, "_revive", revive)
    return leading(tmp_path, "caddy", ())()


def test_routes_that_come_and_go_at_the_same_moment_are_all_known(proxy: Any) -> None:
    async def story() -> None:
        await proxy.start()
        await asyncio.gather(*(proxy.add_route(f"/user/{name}/", name, {}) for name in "abc"))
        assert proxy.taken == {f"/user/{name}/": name for name in "abc"}
        await asyncio.gather(proxy.delete_route("/user/a/"), proxy.add_route("/", "hub", {"hub": True}))
        assert proxy.taken == {"/user/b/": "b", "/user/c/": "c", "/": "hub"}
        known = await proxy.get_all_routes()
        assert known["/"] == {"routespec": "/", "target": "hub", "data": {"hub": True}}
        proxy.stop()

    asyncio.run(story())


def test_a_route_that_caddy_refuses_is_not_known(proxy: Any) -> None:
    async def story() -> None:
        await proxy.start()
        await proxy.add_route("/", "hub", {})
        with pytest.raises(ServiceError):
            await proxy.add_route("/user/a/", "bad", {})
        assert list(await proxy.get_all_routes()) == ["/"]
        proxy.stop()

    asyncio.run(story())
