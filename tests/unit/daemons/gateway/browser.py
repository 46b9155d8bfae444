"""A class with something to see, and browsers that look at its page: on loopback, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, web
from aiohttp.test_utils import TestServer

from lab.daemons.gateway.access import Access
from lab.daemons.gateway.server import Site
from lab.daemons.gateway.tokens import Slowdown
from lab.people.progress import CLAIMED, FAILED, PASSED, Progress, Standing, write_progress
from lab.people.registry import SERVER
from lab.store.base import AccessDeniedError, Store
from lab.topology import RECEIPTS_PREFIX, Credentials
from tests.conftest import ROOT
from tests.fakes.host import FakeClock
from tests.fakes.store import FakeObjectStore
from tests.unit.daemons.gateway.classes import Class

RECEIPT = ROOT / "tests/unit/data/receipt_recovered.json"
NAMES = ("ann", "ben", "eva", "tom")
CSP = "default-src 'none'"


@dataclass
class Page:
    """An answer as a browser has it."""

    status: int
    text: str
    headers: dict[str, str]

    @property
    def key(self) -> str:
        """The key in its forms."""
        match = re.search(r'name="key" value="([0-9a-f]{64})"', self.text)
        return match[1] if match else ""

    def section(self, title: str) -> str:
        """The part below a heading, with its spaces made one."""
        part = self.text.split(f"<h2>{title}</h2>")[1].split("</section>")[0]
        return " ".join(re.sub(r"<[^>]*>", " ", part).split())


@dataclass
class Browser:
    """Somebody's browser; it keeps cookies, and follows no redirect."""

    session: ClientSession
    cookies: dict[str, str] = field(default_factory=dict)
    set_cookie: str = ""

    async def __call__(self, path: str = "", form: dict[str, str] | None = None, **headers: str) -> Page:
        method = "GET" if form is None else "POST"
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if cookie:
            sent["Cookie"] = cookie
        url = f"/class/{path}"
        async with self.session.request(
            method, url, data=form, headers=sent, allow_redirects=False
        ) as answer:
            for line in answer.headers.getall("Set-Cookie", ()):
                self.set_cookie = line
                for name, morsel in SimpleCookie(line).items():
                    self.cookies[name] = morsel.value
            return Page(answer.status, await answer.text(), dict(answer.headers))

    async def press(self, act: str, on: str) -> Page:
        """Press a button, and say yes."""
        return await self("do", {"key": (await self()).key, "act": act, "on": on})


class Keyed(FakeObjectStore):
    """A store that lets each key reach what the people's rights say."""

    def __init__(self, school: Class) -> None:
        super().__init__()
        self.away = False
        self._school, self._key = school, Credentials("", "")

    def opened(self, key: Credentials) -> Store:
        other = Keyed(self._school)
        other.__dict__.update(self.__dict__)
        other._key = key
        return other

    def list(self, prefix: str = "", recursive: bool = True) -> Any:
        from lab.people.rights import rights
        from lab.store.base import UnreachableStoreError

        if self.away:
            raise UnreachableStoreError("the store does not answer")
        person = next(one for one in self._school.registry.people().values() if one.key == self._key)
        if not rights(person.role, person.name).may_list(prefix):
            raise AccessDeniedError(f"{person.name} may not list {prefix}")
        return super().list(prefix, recursive)


class Room:
    """The page of a class before fakes."""

    def __init__(self, school: Class) -> None:
        self.school, self.clock = school, school.world.clock
        self.paused: list[float] = []
        self.log: list[str] = []
        self.store = Keyed(school)
        self.tokens = {name: school.registry.reset(name)[0].token for name in NAMES}
        self.site = Site(
            school.registry, Slowdown(self.log.append, FakeClock()), self.log.append, self._pause,
            clock=self.clock,
            wall=self.clock,
        )  # fmt: skip
        self.site.open(Access(school.registry, school.queue, school.ray), "of ray", self.store.opened)
        school.registry.grant(SERVER, ["ann"])
        self._fill()

    def runs(self, workload: str) -> bool:
        return self.school.world.controller.records[workload].phase == "running"

    async def _pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    def _fill(self) -> None:
        """ann's job holds both GPUs; ben's waits for her; each has a receipt and lessons."""
        school, now = self.school, self.clock()
        school.submit("ann", "digits", 900, metadata={"gpus_per_worker": "2", "workers": "1"})
        school.world.run(5)
        school.submit("ben", "food", 900, metadata={"gpus_per_worker": "1", "workers": "1"})
        school.world.run(5)
        document = json.loads(RECEIPT.read_text())
        for person in ("ann", "ben"):
            document["job"]["submission_id"] = f"{person}-digits"
            document["fault"]["at"] = now - 600
            self.store.put(
                f"{RECEIPTS_PREFIX}/{person}-digits-{int(now)}.json", json.dumps(document).encode()
            )
        standing = (Standing(1, CLAIMED, now), Standing(2, PASSED, now), Standing(7, FAILED, now))
        people = {"ann": standing, "ben": standing[:1]}
        write_progress(
            school.registry.path.parent,
            Progress(collected_at=now, lessons=tuple(range(1, 15)), people=people),
        )
        school.ray.lists["/api/v0/nodes"] = {
            "data": {
                "result": {
                    "result": [
                        {"node_name": "ray-head", "state": "ALIVE", "resources_total": {"CPU": 0}},
                        {
                            "node_name": "ray-worker-0",
                            "state": "ALIVE",
                            "resources_total": {"CPU": 8, "GPU": 2},
                        },
                        {"node_name": "ray-worker-1", "state": "DEAD", "state_message": "heartbeats missed"},
                    ]
                }
            }
        }
        device = {"node": "ray-worker-0", "message": "", "checks": []}
        school.queue.more["/health"] = {
            "devices": [
                {**device, "device": "gpu-0", "state": "PASS"},
                {**device, "device": "gpu-1", "state": "EVICT", "message": "ecc: 4 uncorrectable errors"},
            ]
        }

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[ClientSession]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.site.serve)
        async with (
            TestServer(app) as server,
            ClientSession(server.make_url("/"), cookie_jar=DummyCookieJar()) as session,
        ):
            yield session

    def visit(self, story: Callable[..., Coroutine[Any, Any, None]], *people: str) -> None:
        """Tell a story with a browser of each of these people, who are signed in."""

        async def visits() -> None:
            async with self.opened() as session:
                browsers = [Browser(session) for _ in people]
                for browser, name in zip(browsers, people, strict=True):
                    if name:
                        page = await browser("sign-in", {"name": name, "token": self.tokens[name]})
                        assert page.status == 303, page.text
                await story(*browsers)

        asyncio.run(visits())
