"""The probe's command that announces the end of a node to Ray."""

from __future__ import annotations

import json
import time

import pytest
from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION

from raylab_faults import drain


class Gcs:
    """Ray's GCS. It notes what it is told."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.notices: list[tuple[str, int, int]] = []

    def drain_node(self, node_id: str, reason: int, message: str, deadline_ms: int) -> tuple[bool, str]:
        assert message
        self.notices.append((node_id, reason, deadline_ms))
        return not self.problem, self.problem


def test_ray_is_told_the_reason_and_the_time_of_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    gcs = Gcs()
    assert drain.main(["9e", "30.0"], gcs) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["first"] <= answer["last"] <= time.time()
    assert gcs.notices == [("9e", DRAIN_NODE_REASON_PREEMPTION, int((answer["first"] + 30) * 1000))]


def test_a_refusal_of_ray_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert drain.main(["9e", "30"], Gcs("not now")) == 3
    assert json.loads(capsys.readouterr().out)["problem"] == "not now"
