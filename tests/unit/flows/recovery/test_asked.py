"""A person of a class asks her gateway for a fault, and follows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lab.api.base import plain
from lab.api.people import NOT_YET, FaultBegun, FaultOrder, FaultSeen
from lab.errors import LabDownError, RefusedError, UnsupportedError
from lab.flows.recovery import FaultRequest
from lab.flows.recovery.asked import ask, restart
from tests.unit.cli.fakes import receipt
from tests.unit.flows.world import W0, Drill


class Gateway:
    """The pages of a gateway, whose faults go on as is said."""

    def __init__(self, *seen: FaultSeen | Exception) -> None:
        self.orders: list[tuple[str, FaultOrder]] = []
        self.started: list[str] = []
        self.rows = [("ann", "ann-digits", "Admitted"), ("ben", "ben-food", "Admitted")]
        self._seen: Iterator[FaultSeen | Exception] = iter(seen)

    def list(self) -> Any:
        rows = [SimpleNamespace(namespace=n, name=job, status=status) for n, job, status in self.rows]
        return SimpleNamespace(workloads=rows)

    def break_node(self, job: str, order: FaultOrder) -> FaultBegun:
        self.orders.append((job, order))
        return FaultBegun(W0)

    def fault(self, job: str) -> FaultSeen:
        seen = next(self._seen)
        if isinstance(seen, Exception):
            raise seen
        return seen

    def start_node(self, service: str) -> None:
        self.started.append(service)


@pytest.fixture
def anns(world: Drill, monkeypatch: pytest.MonkeyPatch) -> Drill:
    monkeypatch.setattr(type(world.lab.view), "person", "ann")
    return world


def seen(*lines: str, code: int | None = None, printed: str = "") -> FaultSeen:
    return FaultSeen(W0, lines, code, printed)


def asked(world: Drill, gateway: Gateway, request: FaultRequest, **more: Any) -> tuple[Any, list[str]]:
    world.lab.queues = gateway  # type: ignore[assignment]
    said: list[str] = []
    return ask(world.lab, request, said.append, clock=world.clock, **more), said


def test_each_line_is_said_once_and_the_receipt_is_given(anns: Drill) -> None:
    printed = json.dumps(plain(receipt()))
    away = LabDownError("the gateway is started again", "")
    gateway = Gateway(seen("a"), away, seen("a", "b"), seen("b", "c", code=0, printed=printed))
    over, said = asked(anns, gateway, FaultRequest(kind="stop", after_epoch=3))
    assert gateway.orders == [("ann-digits", FaultOrder("stop", after_epoch=3))]
    assert said[1:] == ["a", "b", "c"]
    assert (over.node, over.code, over.receipt) == (W0, 0, receipt())


def test_what_failed_there_fails_here(anns: Drill) -> None:
    refused = json.dumps({"error": {"message": "no", "code": 11, "hint": ""}})
    over, said = asked(anns, Gateway(seen("error: no", code=11, printed=refused)), FaultRequest(job="j"))
    assert (over.code, over.receipt, said[-1]) == (11, None, "error: no")


def test_without_waiting_nothing_is_followed(anns: Drill) -> None:
    over, _ = asked(anns, Gateway(), FaultRequest(job="j", leave_down=True), wait=False)
    assert (over.node, over.receipt) == (W0, None)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("ben", "ben-food", "Admitted"), ("ann", "ann-a", "Pending")], "no job of yours runs"),
        ([("ann", "ann-a", "Admitted"), ("ann", "ann-b", "Admitted")], "several run: ann-a, ann-b"),
    ],
)
def test_which_job_is_meant_has_to_be_clear(anns: Drill, rows: Any, words: str) -> None:
    gateway = Gateway()
    gateway.rows = rows
    with pytest.raises(RefusedError, match=words):
        asked(anns, gateway, FaultRequest())


def test_what_only_the_labs_owner_can_say_is_refused(anns: Drill) -> None:
    refused = (
        FaultRequest(timeout=3.0),
        FaultRequest(parameters={"check": 1.0}),
        FaultRequest(spare_others=True),
    )
    for request in refused:
        with pytest.raises(UnsupportedError, match="neither -p nor --timeout"):
            asked(anns, Gateway(), request)


def test_a_job_that_does_not_train_yet_is_waited_for(anns: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway()
    answers: list[FaultBegun | Exception] = [RefusedError("it holds nothing of a node", NOT_YET)] * 3
    answers += [FaultBegun(W0), RefusedError("ray-worker-0 would be lost to ben-food, too", "wait")]

    def break_node(job: str, order: FaultOrder) -> FaultBegun:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(gateway, "break_node", break_node)
    over, said = asked(anns, gateway, FaultRequest(), wait=False)
    assert (over.node, len(said)) == (W0, 2)
    with pytest.raises(RefusedError, match="lost to ben-food"):
        asked(anns, gateway, FaultRequest(), wait=False)


def test_a_node_that_was_left_down_is_waited_for(anns: Drill) -> None:
    gateway = Gateway()
    anns.lab.queues = gateway  # type: ignore[assignment]
    anns.runtime.kill(W0)
    began = anns.clock()

    def start(service: str) -> None:
        gateway.started.append(service)
        anns.clock.after(20, lambda: anns.runtime.start(W0))

    gateway.start_node = start  # type: ignore[method-assign]
    anns.clock.sleep(0.1)  # Ray does not know yet that it has ended
    restart(anns.lab, W0, clock=anns.clock)
    assert gateway.started == [W0]
    assert anns.healthy()
    assert anns.clock() >= began + 20


def test_the_labs_owner_restarts_it_herself(world: Drill) -> None:
    world.runtime.kill(W0)
    restart(world.lab, W0)
    assert world.healthy()
