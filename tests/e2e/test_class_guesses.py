"""Wrong tokens at the class's one address: they wait, they are logged, and they keep nobody out.

Their number is $RAYLAB_CLASS_GUESSES, or 10,000, at each entrance. The figures are printed:
`labctl test --e2e --all -k guesses -- -s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
import pytest

from lab.services import GATEWAY, HUB, PROXY
from tests.e2e.browser import Browser
from tests.e2e.classes import Course
from tests.e2e.harness import Bench

if TYPE_CHECKING:
    from aiohttp import ClientSession

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")

GUESSES = int(os.environ.get("RAYLAB_CLASS_GUESSES", "10000"))
AT_ONCE = 300
"""Guesses under way: more than may wait for their refusal."""

REFUSED = (403, 429)
SECONDS = 5.0
"""Longest time in which somebody with the right token gets in meanwhile, as its median."""

GROWTH = 96 << 20
"""Most memory that a service may have gained by all guesses."""

PAUSE = 1.0


@dataclass
class Tried:
    """What became of guesses, and of those who came with the right token meanwhile."""

    statuses: Counter[int | str] = field(default_factory=Counter)
    """Statuses of answers, and in place of one that did not come the error."""
    seconds: list[float] = field(default_factory=list)
    let_in: list[float] = field(default_factory=list)
    """Seconds of each who signed in."""
    kept_out: list[str] = field(default_factory=list)


@pytest.mark.rare
def test_guesses_keep_nobody_out(make_bench: Callable[[], Bench]) -> None:
    bench = make_bench()
    course = Course(bench, "ann")
    for kind in ("page", "hub", "api"):
        before, begin = memory(bench), time.monotonic()
        with signing_in(course, kind) as tried:
            asyncio.run(guess(course, kind, tried))
        after = memory(bench)
        numbers = {
            "entrance": kind,
            "guesses": GUESSES,
            "seconds": round(time.monotonic() - begin),
            "answers": dict(tried.statuses),
            "median_s": middle(tried.seconds),
            "signed_in": len(tried.let_in),
            "signed_in_median_s": middle(tried.let_in),
            "signed_in_longest_s": round(max(tried.let_in), 2),
            "MiB": {name: (before[name] >> 20, after[name] >> 20) for name in before},
        }
        print(json.dumps(numbers))
        assert set(tried.statuses) <= set(REFUSED), numbers
        assert (sum(tried.statuses.values()), tried.kept_out) == (GUESSES, []), numbers
        assert middle(tried.let_in) <= SECONDS, numbers
        assert all(after[name] - before[name] <= GROWTH for name in before), numbers
        log = list(course.bench.lab.logs(HUB if kind == "hub" else GATEWAY))
        assert any("wrong tokens, the latest from " in line for line in log), log[-5:]


def middle(seconds: list[float]) -> float:
    """The median, in seconds."""
    return round(sorted(seconds)[len(seconds) // 2], 2)


def memory(bench: Bench) -> dict[str, int]:
    """Bytes of the services that hear of guesses."""
    return {
        name: psutil.Process(bench.leaders()[name][0]).memory_info().rss for name in (GATEWAY, HUB, PROXY)
    }


@contextlib.contextmanager
def signing_in(course: Course, kind: str) -> Iterator[Tried]:
    """Let ann sign in again and again, each time in another browser."""
    tried, over = Tried(), threading.Event()

    def come() -> None:
        while not over.wait(PAUSE):
            begin, browser = time.monotonic(), course.browser("ann")
            try:
                answer = enter(course, browser, kind)
            except OSError as error:
                answer = str(error)
            tried.let_in.append(time.monotonic() - begin)
            if answer:
                tried.kept_out.append(answer)

    thread = threading.Thread(target=come)
    thread.start()
    try:
        yield tried
    finally:
        over.set()
        thread.join()


def enter(course: Course, browser: Browser, kind: str) -> str:
    """Sign in with the right token; why not, or nothing."""
    token = course.tokens["ann"]
    if kind == "hub":
        browser.sign_in("ann", token)
        return "" if browser.signed_in else "JupyterHub does not know her"
    if kind == "page":
        answer = browser.session.post(
            f"{browser.hub}/class/sign-in", {"name": "ann", "token": token}, timeout=60
        )
    else:
        answer = course.ask("ann", "GET", "/api/jobs/")
    return "" if answer.ok else f"{answer.status_code} {answer.text[:200]}"


async def guess(course: Course, kind: str, tried: Tried) -> None:
    """All guesses, some hundred of them at a time."""
    import aiohttp

    ends, guesses = course.endpoints, iter(range(GUESSES))
    connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=ssl.create_default_context(cafile=ends.authority))
    timeout = aiohttp.ClientTimeout(300)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=timeout) as session:
        send = await sender(session, ends.address, kind)

        async def some() -> None:
            for number in guesses:
                begin = time.monotonic()
                try:
                    status: int | str = await send(f"wrong{number}")
                except aiohttp.ClientError as error:
                    status = repr(error)
                tried.statuses[status] += 1
                tried.seconds.append(time.monotonic() - begin)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def sender(session: ClientSession, address: str, kind: str) -> Callable[[str], Awaitable[int]]:
    """What tries one token, and gives the status of the answer."""
    hidden, cookies = "", ""
    if kind == "hub":
        async with session.get(f"{address}/hub/login") as page:
            hidden = re.findall(r'name="_xsrf"\s+value="([^"]*)"', await page.text())[0]
            cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in page.cookies.items())

    async def send(token: str) -> int:
        if kind == "api":
            headers = {"Authorization": f"Bearer {token}"}
            request = session.get(f"{address}/api/jobs/", headers=headers)
        elif kind == "page":
            form = {"name": "ann", "token": token}
            request = session.post(f"{address}/class/sign-in", data=form, allow_redirects=False)
        else:
            form = {"_xsrf": hidden, "username": "ann", "password": token}
            headers = {"Cookie": cookies}
            request = session.post(f"{address}/hub/login", data=form, headers=headers, allow_redirects=False)
        async with request as answer:
            await answer.read()
            return answer.status

    return send
