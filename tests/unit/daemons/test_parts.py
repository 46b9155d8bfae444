"""The parts that extensions bring to the controller of the queues."""

from __future__ import annotations

import threading

import pytest

from lab.api.health import AgentReport, Device
from lab.daemons import parts
from lab.ext.health.board import Board
from lab.extension import Extension
from tests.fakes.host import FakeClock


def test_health_is_a_part_and_answers_for_its_devices() -> None:
    (board,) = made = parts.make_parts(threading.RLock(), FakeClock(1.0), lambda: None, lambda _: None)
    assert isinstance(board, Board)
    board.report(AgentReport("ray-worker-0", "1", "", (Device("cpu"),)))
    assert [(device.node, device.takes_work) for device in parts.devices_of(made)] == [("ray-worker-0", True)]
    assert {path for _, path, _ in board.pages()} == {"/health", "/health/report", "/health/symptom"}


def test_a_controller_works_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ours", lambda: (Extension("core"),))
    assert parts.devices_of(parts.make_parts(threading.RLock(), FakeClock(1.0), lambda: None, print)) == []
