"""The hub's proxy: Caddy, whose settings are replaced whenever a server comes or goes.

Its administration listens on a Unix socket in a folder that only the lab's owner may enter.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, UnixConnector
from jupyterhub.proxy import Proxy
from tornado.ioloop import PeriodicCallback

from lab.daemons.hub.caddy import SOCKET, caddy_settings
from lab.errors import ServiceError
from lab.host import command

START_SECONDS = 30.0
POLL_SECONDS = 0.2
WATCH_SECONDS = 5.0
"""Pause between two looks if Caddy runs."""


class CaddyProxy(Proxy):
    """Leads people to the hub and to their servers. `folder` is set by a subclass: see `leading`."""

    folder: Path
    caddy: str
    trusted: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    watch: PeriodicCallback | None = None
    lock: asyncio.Lock
    routes: Mapping[str, dict[str, object]]

    async def start(self) -> None:
        """Start Caddy, without a route yet. Raises ServiceError."""
        self.lock, self.routes = asyncio.Lock(), {}
        await self._run()
        self.watch = PeriodicCallback(self._revive, WATCH_SECONDS * 1000)
        self.watch.start()

    def stop(self) -> None:
        """End Caddy."""
        if self.watch is not None:
            self.watch.stop()
        if self.process is not None:
            self.process.terminate()

    async def add_route(self, routespec: str, target: str, data: Mapping[str, object]) -> None:
        route: dict[str, object] = {"routespec": routespec, "target": target, "data": dict(data)}
        async with self.lock:
            await self._change({**self.routes, routespec: route})

    async def delete_route(self, routespec: str) -> None:
        async with self.lock:
            await self._change({spec: route for spec, route in self.routes.items() if spec != routespec})

    async def get_all_routes(self) -> dict[str, dict[str, object]]:
        return {spec: dict(route) for spec, route in self.routes.items()}

    async def _change(self, routes: Mapping[str, dict[str, object]]) -> None:
        """Give Caddy other routes. Raises ServiceError, and then they are as they were."""
        before, self.routes = self.routes, routes
        try:
            await self._load()
        except ServiceError:
            self.routes = before
            raise

    async def _run(self) -> None:
        """Start the process, and wait until it takes settings."""
        (self.folder / SOCKET).unlink(missing_ok=True)
        argv = (self.caddy, "run", "--config", "-")
        self.process = command.start(argv, stdin=subprocess.PIPE, env=self._environment())
        assert self.process.stdin is not None
        with self.process.stdin as pipe:
            pipe.write(json.dumps(self._settings()).encode())
        for _ in range(int(START_SECONDS / POLL_SECONDS)):
            await asyncio.sleep(POLL_SECONDS)
            if self.process.poll() is not None:
                raise ServiceError(f"caddy ended with {self.process.returncode} as it was started")
            try:
                return await self._load()
            except ServiceError as error:
                last = error
        raise last

    async def _revive(self) -> None:
        """Start Caddy again when it has ended."""
        if self.process is not None and self.process.poll() is not None and not self.lock.locked():
            async with self.lock:
                self.log.error("caddy ended with %s and is started again", self.process.returncode)
                await self._run()

    async def _load(self) -> None:
        """Replace Caddy's settings. Raises ServiceError."""
        try:
            async with ClientSession(connector=UnixConnector(str(self.folder / SOCKET))) as session:
                reply = await session.post("http://127.0.0.1/load", json=self._settings())
                if reply.status != 200:
                    raise ServiceError(f"caddy refused the routes: {(await reply.text())[:300]}")
        except (ClientError, OSError) as error:
            raise ServiceError(f"caddy does not take the routes: {error}") from error

    def _settings(self) -> dict[str, object]:
        targets = {spec: str(route["target"]) for spec, route in self.routes.items()}
        return caddy_settings(urlsplit(self.public_url).netloc, self.folder, targets, self.trusted)

    def _environment(self) -> dict[str, str]:
        """Caddy keeps nothing in the home of whoever started the lab."""
        return {**os.environ, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}


def leading(folder: Path, caddy: str, trusted: Sequence[str]) -> type[CaddyProxy]:
    """The proxy whose socket is in this folder, that is this program, and that believes those networks."""
    return type("CaddyProxy", (CaddyProxy,), {"folder": folder, "caddy": caddy, "trusted": trusted})
