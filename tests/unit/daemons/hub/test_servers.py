"""What the hub does to a person's server that runs."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import pytest

from lab.runtime.local import processes

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server of ann, on plain processes; this process stands for its first."""
    from lab.daemons.hub import servers

    monkeypatch.setattr(servers, "keeps_server", lambda *_: True)
    server: Any = servers.PersonServer(user=SimpleNamespace(name="ann"), mem_limit="2G")
    server.settings = SimpleNamespace(accounts=False, mark="/labs/raylab:hub")
    server.registry, server.pid = None, os.getpid()
    return server


def test_what_left_the_tree_of_a_server_is_bound_too(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.daemons.hub import memory

    looks: list[int] = []
    bound: list[tuple[object, ...]] = []

    def by_mark() -> dict[str, list[str]]:
        looks.append(1)
        return {"/labs/raylab:hub-ann": ["server", "fled"], "/labs/raylab:hub-ben": ["other"]}

    def end_largest(*asked: object) -> str:
        bound.append(asked)
        return ""

    monkeypatch.setattr(processes, "by_mark", by_mark)
    monkeypatch.setattr(memory, "MONOTONIC", lambda: 1e6)
    monkeypatch.setattr(memory, "end_largest", end_largest)
    memory._look.cache_clear()
    for _ in range(2):
        assert asyncio.run(server.poll()) is None
    assert bound == [(["server", "fled"], os.getpid(), 2 << 30, memory.shares)] * 2
    assert looks == [1]


def test_what_stays_as_it_is_is_logged_once(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(server.log, "warning", lambda line, *words: lines.append(line % words))
    for said in ("takes more", "takes more", "", "takes more", "took 3: ended a", "took 3: ended b"):
        monkeypatch.setattr(server, "_bound_memory", lambda said=said: said)
        assert asyncio.run(server.poll()) is None
    wanted = ("takes more", "takes more", "took 3: ended a", "took 3: ended b")
    assert lines == [f"what ann runs {said}" for said in wanted]
