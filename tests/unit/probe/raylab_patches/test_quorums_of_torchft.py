"""Managers of torchft itself that ask less often: one is lost, another comes, and no state differs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("ray.train")
pytest.importorskip("torchft")

import torch
import torchft
import torchft.manager
from torchft._torchft import LighthouseServer

from raylab_patches import quorums

PATIENCE_SECONDS = 60
TOGETHER, ALONE, LAST = 60, 100, 220
"""Steps after which a rank is lost, after which another one comes, and at the end."""


@pytest.fixture
def manager_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchft's class, which asks less often in this test."""
    manager = torchft.manager.Manager
    for name in ("__init__", "start_quorum", "should_commit", "wrap_future"):
        monkeypatch.setattr(manager, name, getattr(manager, name))
    monkeypatch.setattr(quorums, "MOST_STEPS", 100)
    quorums.ask_less(manager)
    return manager


@dataclass
class Rank:
    """One replica group in a thread, and what it saw: each step, how many took part, its weights after it."""

    name: str
    lighthouse: str
    stop: Callable[[int], bool]
    seed: int
    steps: list[tuple[int, int, str]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    discarded: int = 0
    came: threading.Event = field(default_factory=threading.Event)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        generator = torch.Generator().manual_seed(self.seed)
        model = torch.nn.Linear(8, 1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        adam = torch.optim.Adam(model.parameters(), lr=0.01)

        def load(given: dict[str, Any]) -> None:
            model.load_state_dict(given["model"])
            adam.load_state_dict(given["adam"])

        group = torchft.ProcessGroupGloo(timeout=timedelta(seconds=PATIENCE_SECONDS))
        manager = torchft.Manager(
            pg=group,
            min_replica_size=1,
            state_dict=lambda: {"model": model.state_dict(), "adam": adam.state_dict()},
            load_state_dict=load,
            replica_id=self.name,
            rank=0,
            world_size=1,
            store_addr="127.0.0.1",
            store_port=store.port,
            lighthouse_addr=self.lighthouse,
            hostname="localhost",
            heartbeat_interval=timedelta(milliseconds=25),
        )
        real = manager._client._quorum

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.asked.append(kwargs["step"])
            return real(*args, **kwargs)

        manager._client._quorum = counted
        net, optimizer = torchft.DistributedDataParallel(manager, model), torchft.Optimizer(manager, adam)
        while not self.stop(manager.current_step()):
            before = manager.current_step()
            optimizer.zero_grad()
            net(torch.randn(4, 8, generator=generator)).square().mean().backward()
            optimizer.step()
            if manager.current_step() == before:
                self.discarded += 1
                continue
            weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
            took_part = manager.num_participants()
            self.steps.append((manager.current_step(), took_part, hashlib.sha256(weights).hexdigest()))
            if manager.current_step() >= ALONE and took_part == 1:
                self.came.set()
        group.abort()
        manager.shutdown(wait=False)


def test_a_rank_is_lost_and_another_one_comes_and_no_step_is_repeated_nor_state_different(
    manager_class: Any,
) -> None:
    lighthouse = LighthouseServer(
        bind="[::]:0", min_replicas=1, join_timeout_ms=20_000, quorum_tick_ms=20, heartbeat_timeout_ms=2_000
    )
    address = f"http://localhost:{lighthouse.address().rpartition(':')[2]}"
    stays = Rank("rank0", address, lambda step: step >= LAST, seed=1)
    lost = Rank("rank1", address, lambda step: step >= TOGETHER, seed=2)
    threads = [stays.start(), lost.start()]
    threads[1].join(PATIENCE_SECONDS)
    assert stays.came.wait(PATIENCE_SECONDS), "the other one did not go on"
    comes = Rank("rank1", address, lambda step: step >= LAST, seed=3)
    threads.append(comes.start())
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()

    for rank in (stays, lost, comes):
        numbers = [step for step, _, _ in rank.steps]
        assert numbers == sorted(set(numbers)), "a step was repeated"
    states = {(step, ranks): state for step, ranks, state in stays.steps}
    shared = [(step, ranks, state) for step, ranks, state in (*lost.steps, *comes.steps) if ranks == 2]
    assert len(lost.steps) == TOGETHER
    assert len(shared) > TOGETHER, "the one that came took part"
    assert all(states[step, ranks] == state for step, ranks, state in shared)
    alone = {step - 1 for step, ranks, _ in stays.steps if ranks == 1}
    assert alone <= set(stays.asked), "a rank that is alone asks before each step"
    assert len(stays.asked) < len(stays.steps), "while both are there they ask less often"
    assert stays.discarded <= 2
    del lighthouse
