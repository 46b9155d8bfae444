"""Steps of torchft: several make one event, what a rank is given and what all have is recorded once."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from raylab_steps import Steps, source, state_sha256, watch_manager, watch_optimizer

from tests.fakes.host import FakeClock


class Events:
    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, **fields: Any) -> None:
        self.all.append((event, fields))

    def named(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.all if event == name]


def test_an_hour_of_ten_steps_a_second_is_less_than_a_megabyte() -> None:
    events, clock = Events(), FakeClock()
    steps = Steps(events, clock)
    for step in range(1, 36_001):
        clock.sleep(0.1)
        steps.committed(step, 8)
    steps.flush()
    written = events.named("steps")
    common = {"schema": "ledger/1", "event": "steps", "at": 1795393146.596, "job": "j" * 30, "run": "r" * 40}
    size = sum(len(json.dumps({**common, "node_id": "n" * 56, **fields})) for fields in written)
    assert size < 1_000_000
    assert sum(1 + len(fields["ms"]) for fields in written) == 36_000
    assert [fields["first"] for fields in written][:3] == [1, 5, 12]


def test_a_new_number_of_ranks_begins_a_new_event_and_asks_for_the_state() -> None:
    events, clock = Events(), FakeClock()
    steps = Steps(events, clock)
    assert [steps.committed(step, ranks) for step, ranks in ((7, 2), (8, 2), (9, 1), (10, 2))] == [
        *(True, False, True, True)
    ]
    steps.flush()
    assert [(f["first"], f["ranks"], len(f["ms"])) for f in events.named("steps")] == [
        *((7, 2, 1), (9, 1, 0), (10, 2, 0))
    ]


def test_rounding_does_not_add_up() -> None:
    events, clock = Events(), FakeClock()
    steps = Steps(events, clock)
    for step in range(1, 101):
        steps.committed(step, 2)
        clock.sleep(0.0014)
    steps.flush()
    recorded = sum(sum(f["ms"]) for f in events.named("steps"))
    assert abs(recorded - 99 * 1.4) <= 1


class FakeManager:
    """As torchft's, with what is watched of it."""

    def __init__(self) -> None:
        self.step, self.ranks, self.agree = 0, 2, True
        self._client: Any = SimpleNamespace(_quorum=lambda: SimpleNamespace(
            replica_ids=["rank0:a", "rank1:b"], recover_src_replica_rank=1
        ))  # fmt: skip
        self._user_state_dicts = {"default": lambda: {"weight": self.step}}

    def current_step(self) -> int:
        return self.step

    def num_participants(self) -> int:
        return self.ranks

    def errored(self) -> str:
        return "connection reset"

    def should_commit(self) -> bool:
        self.step += self.agree
        return self.agree

    def _apply_pending_state_dict(self) -> None:
        self.step = 41

    def shutdown(self) -> None:
        pass


class FakeOptimizer:
    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def step(self) -> None:
        self.manager.should_commit()


def test_a_rank_records_what_it_is_given_by_whom_and_the_state_that_all_have() -> None:
    class Manager(FakeManager):
        pass

    class Optimizer(FakeOptimizer):
        pass

    events = Events()
    watch_manager(Manager, events)
    watch_manager(Manager, events)  # once is enough
    watch_optimizer(Optimizer)
    manager: Any = Manager()
    optimizer = Optimizer(manager)
    manager._client._quorum()
    manager._apply_pending_state_dict()
    optimizer.step()
    optimizer.step()
    manager.agree = False
    optimizer.step()
    manager.shutdown()
    assert [name for name, _ in events.all] == ["healed", "state", "steps", "step_discarded", "state"]
    assert events.named("healed") == [{"step": 41, "source": "rank1"}]
    assert events.named("step_discarded")[0]["step"] == 44
    assert [state["step"] for state in events.named("state")] == [42, 43]


def test_a_quorum_that_names_nobody_gives_no_source() -> None:
    assert source(None) == ""
    assert source(SimpleNamespace(replica_ids=["rank0:a"], recover_src_replica_rank=3)) == ""


def test_one_bit_of_a_nested_state_changes_its_sha256() -> None:
    import torch

    def state(last: float, key: str = "b") -> Any:
        return {"a": [torch.tensor([1.0, last]), 3], key: {"step": torch.tensor(5), "lr": 0.1}}

    assert state_sha256(state(2.0)) == state_sha256(dict(reversed(state(2.0).items())))
    assert len({state_sha256(state(2.0)), state_sha256(state(2.0000002)), state_sha256(state(2.0, "c"))}) == 3
