"""Who is let in, and how fast the others are told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from lab.daemons.gateway.access import Access
from lab.daemons.gateway.server import Site
from lab.daemons.gateway.tokens import LONGEST_SECONDS, MOST_WAITING, Slowdown, origin, token_of
from lab.people.registry import FILE, Newcomer, Registry
from tests.fakes.host import FakeClock
from tests.unit.daemons.gateway.classes import Class


class Gate:
    """The gateway's site, whose pauses pass at once."""

    def __init__(self, school: Class) -> None:
        self.school, self.clock = school, FakeClock()
        self.log: list[str] = []
        self.paused: list[float] = []
        self.slowdown = Slowdown(self.log.append, self.clock)
        self.site = Site(school.registry, self.slowdown, self.log.append, self._pause, self.clock)
        self.site.open(Access(school.registry, school.queue, school.ray))
        self.tokens = {name: school.registry.reset(name)[0].token for name in ("ann", "ben")}

    async def _pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    def __call__(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        async def ask() -> Any:
            return await self.site.serve(make_mocked_request("GET", path, headers=dict(headers or {})))

        response = asyncio.run(ask())
        return response.status, response.body.decode()

    def bear(self, token: str, path: str = "/api/version") -> tuple[int, str]:
        return self(path, {"Authorization": f"Bearer {token}"})


@pytest.fixture
def gate(school: Class) -> Gate:
    return Gate(school)


def test_who_bears_a_token_is_let_in(gate: Gate) -> None:
    assert gate.bear(gate.tokens["ann"])[0] == 200
    assert gate("/api/version", {"X-Ray-Authorization": f"bearer {gate.tokens['ann']}"})[0] == 200
    assert gate.paused == []


def test_health_needs_none(gate: Gate) -> None:
    assert gate("/healthz") == (200, "{}")


def test_without_a_token(gate: Gate) -> None:
    for headers in ({}, {"Authorization": "Basic YTpi"}, {"Cookie": "ray-authentication-token=x"}):
        assert gate("/api/version", headers) == (401, "Unauthorized: Missing authentication token")
    assert gate.paused == []


def test_a_wrong_token_is_told_late_and_logged(gate: Gate) -> None:
    for _ in range(100):
        assert gate.bear("wrong") == (403, "Forbidden: Invalid authentication token")
    assert gate.paused == sorted(gate.paused)
    assert (gate.paused[0], gate.paused[-1]) == (0.1, LONGEST_SECONDS)
    assert len(gate.log) == 1
    gate.clock.sleep(11)
    gate.bear("wrong")
    assert gate.log[1].startswith("100 wrong tokens, the latest from")


def test_a_burst_is_logged_whole_once_it_is_over(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    async def bursts() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", gate.clock.after)
        for pause in (0, 1, 1):
            gate.clock.sleep(pause)
            await gate.slowdown.hold_back("somewhere", gate._pause)
        assert gate.log == ["a wrong token, the latest from somewhere"]
        gate.clock.sleep(60)
        assert gate.log[1:] == ["2 wrong tokens, the latest from somewhere"]
        for pause in (0, 9, 2, 1):  # the third guess is logged with the second, the fourth has to wait again
            gate.clock.sleep(pause)
            await gate.slowdown.hold_back("elsewhere", gate._pause)
        gate.clock.sleep(60)
        assert gate.log[2:] == [
            f"{count}, the latest from elsewhere"
            for count in ("a wrong token", "2 wrong tokens", "a wrong token")
        ]

    asyncio.run(bursts())


@pytest.mark.parametrize(
    ("forwarded", "words"),
    [
        ((), "127.0.0.1"),
        (("192.0.2.7",), "127.0.0.1, for 192.0.2.7"),
        (("2001:db8::7", "192.0.2.7"), "127.0.0.1, for 2001:db8::7, 192.0.2.7"),
        (("ben's laptop",), "127.0.0.1"),
        (("1" * 101,), "127.0.0.1"),
    ],
)
def test_the_log_says_for_whom_a_proxy_asked(forwarded: tuple[str, ...], words: str) -> None:
    assert origin("127.0.0.1", forwarded) == words


def test_nobody_is_locked_out(gate: Gate) -> None:
    for _ in range(10_000):
        gate.slowdown.wrong("somewhere")
    gate.slowdown.waiting = MOST_WAITING
    assert gate.bear("wrong") == (429, "Too many wrong tokens: try again later")
    assert gate.bear(gate.tokens["ben"])[0] == 200
    assert gate.paused == []


def test_wrong_tokens_are_forgotten_with_time() -> None:
    clock = FakeClock()
    slowdown = Slowdown(lambda _: None, clock)
    for _ in range(40):
        latest = slowdown.wrong("somewhere")
    clock.sleep(600)
    assert latest == LONGEST_SECONDS
    assert slowdown.wrong("somewhere") == pytest.approx(0.1, rel=1e-3)


def test_a_token_that_was_replaced_ends_at_once(gate: Gate) -> None:
    Registry(gate.school.registry.path.parent).reset("ann")
    assert gate.bear(gate.tokens["ann"])[0] == 403
    gate.school.registry.close("ben")
    assert gate.bear(gate.tokens["ben"])[0] == 403


def test_rays_own_token_opens_nothing(gate: Gate) -> None:
    person = gate.school.registry.get("ann")
    for token in ("secret", person.token_sha256, person.key.secret_key, person.key.access_key, "ann"):
        assert gate.bear(token)[0] == 403


def test_a_damaged_list_lets_nobody_in_and_says_so(gate: Gate) -> None:
    (gate.school.registry.path.parent / FILE).write_text("{")
    status, text = gate.bear(gate.tokens["ann"])
    assert (status, text) == (503, "the list of the class cannot be read (tell your teacher)")
    assert str(gate.school.registry.path) in gate.log[0]
    for path in ("/workloads", "/api/jobs/x/logs/tail"):
        status, text = gate.bear(gate.tokens["ann"], path)
        assert (status, "people.json" in text) == (503, False)
    assert len(gate.log) == 1
    gate.clock.sleep(11)
    gate.bear("wrong")
    assert len(gate.log) == 2


def test_the_log_of_anothers_job_is_refused_before_it_is_opened(gate: Gate) -> None:
    gate.school.submit("ann", "x")
    path = "/api/jobs/ann-x/logs/tail"
    assert gate.bear(gate.tokens["ben"], path)[0] == 403
    assert gate.bear(gate.tokens["ben"], "/api/jobs/never/logs/tail")[0] == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/workloads/%2e%2e/health", 404),
        ("/api/jobs/%2e", 404),
        ("/api/jobs/%2e%2e/logs/tail", 404),
        ("/api/jobs/%252e", 404),
        ("/api/jobs/a%3Fb", 404),
    ],
)
def test_a_path_is_read_as_it_was_sent(gate: Gate, path: str, status: int) -> None:
    assert gate.bear(gate.tokens["ann"], path)[0] == status
    asked = [path for _, path in gate.school.ray.asked]
    assert asked in ([], ["/api/jobs/%252e"], ["/api/jobs/a%3Fb"])


def test_a_newcomer_is_let_in_without_a_restart(gate: Gate) -> None:
    registry = Registry(gate.school.registry.path.parent)
    (zoe,) = registry.invite([Newcomer("zoe")])
    registry.add([zoe.person])
    assert gate.bear(zoe.token)[0] == 200


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, ""),
        ({"Authorization": "Bearer  a "}, "a"),
        ({"Authorization": "Bearer"}, ""),
        ({"Authorization": "Bearer "}, ""),
        ({"Authorization": "Basic x", "X-Ray-Authorization": "Bearer b"}, "b"),
        ({"Authorization": "Bearer a", "X-Ray-Authorization": "Bearer b"}, "a"),
    ],
)
def test_reading_the_token(headers: Mapping[str, str], token: str) -> None:
    assert token_of(headers) == token
