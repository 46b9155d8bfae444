"""Who is dead, by the judge: simulated machines on which time passes only as the test says."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from raylab_liveness.judge import (
    CALM_SECONDS,
    CUT_SECONDS,
    LONGEST_SECONDS,
    RUNNING_SECONDS,
    SILENCE_SECONDS,
    STEP_SECONDS,
    STOPPED_SECONDS,
    STRETCH,
    Death,
    Judge,
)
from raylab_liveness.model import Kind, Node, Sign

HEAD = Node(b"h", "ray-head", "127.0.0.1:1", head=True)
ONE, TWO = Node(b"1", "ray-worker-0", "127.0.0.1:2"), Node(b"2", "ray-worker-1", "127.0.0.1:3")
NODES = (HEAD, ONE, TWO)
ASK_SECONDS = 0.25


class Machine:
    """A head with a judge and two workers; `hop` is the time that one process waits for a core."""

    def __init__(self, hop: Callable[[], float] = lambda: 0.0) -> None:
        self.now, self.hop = 0.0, hop
        self.silent: set[bytes] = set()
        """Nodes that answer nothing."""
        self.kernel = False
        """A second witness sees that those were stopped."""
        self.deaths: list[tuple[float, Death]] = []
        self._asked: dict[bytes, float] = {}
        self._answers: dict[bytes, float] = {}
        self._next: dict[bytes, float] = {}
        self.judge = Judge(self.now)
        self.judge.know(NODES)

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while self.now < end:
            self.step(STEP_SECONDS + self.hop())

    def step(self, seconds: float) -> None:
        """The judge looks again after so long."""
        self.now += seconds
        for node in NODES:
            self._look(node.node_id)
            if self.kernel:
                stopped = node.node_id in self.silent
                self.judge.hear(Sign("kernel", node.node_id, Kind.STOPPED if stopped else Kind.RUNNING))
        self.deaths += [(self.now, death) for death in self.judge.step(self.now)]

    def _look(self, name: bytes) -> None:
        """Ask a node whose last answer is `ASK_SECONDS` old; hear what has come, or for how long nothing."""
        answered = self._answers.get(name)
        if answered is not None and answered <= self.now:
            self.judge.hear(Sign("a", name, Kind.ANSWERED, answered - self._asked.pop(name)))
            self._next[name] = self.now + ASK_SECONDS
            del self._answers[name]
        if name in self._asked:
            self.judge.hear(Sign("a", name, Kind.SILENT, self.now - self._asked[name]))
        elif self.now >= self._next.get(name, 0.0):
            self._asked[name] = self.now
            if name not in self.silent:
                self._answers[name] = self.now + sum(self.hop() for _ in range(4)) + 0.001

    def thaw(self) -> None:
        """Let the silent nodes answer what they were asked."""
        for name in self.silent:
            if name in self._asked:
                self._answers[name] = self.now
        self.silent.clear()


@pytest.fixture
def idle() -> Machine:
    machine = Machine()
    machine.run(10.0)
    return machine


def test_nodes_that_answer_live(idle: Machine) -> None:
    idle.run(600.0)
    assert idle.deaths == []


def test_a_node_that_nobody_listens_at_is_dead_at_once_and_the_reason_is_the_witness_s(idle: Machine) -> None:
    idle.judge.hear(Sign("a", ONE.node_id, Kind.GONE, why="nobody listens there"))
    assert idle.judge.step(idle.now) == (Death(ONE, "nobody listens there"),)


def test_on_an_idle_machine_a_frozen_node_is_dead_after_two_and_a_half_seconds(idle: Machine) -> None:
    idle.silent, frozen_at = {TWO.node_id}, idle.now
    idle.run(4.0)
    at, death = idle.deaths[0]
    assert death.node == TWO
    assert SILENCE_SECONDS <= at - frozen_at <= 2.7
    assert "has not answered for 2." in death.why


def test_two_witnesses_of_a_stopped_node_need_half_a_second(idle: Machine) -> None:
    idle.kernel, idle.silent, stopped_at = True, {TWO.node_id}, idle.now
    idle.run(2.0)
    at, death = idle.deaths[0]
    assert death.node == TWO
    assert STOPPED_SECONDS <= at - stopped_at <= 1.0
    assert "its process was stopped" in death.why


def test_a_node_whose_process_runs_may_wait_for_a_core_or_a_disk(idle: Machine) -> None:
    idle.silent, silent_at = {TWO.node_id}, idle.now
    idle.judge.hear(Sign("kernel", TWO.node_id, Kind.RUNNING))
    idle.run(RUNNING_SECONDS + 2.0)
    at, death = idle.deaths[0]
    assert death.node == TWO
    assert RUNNING_SECONDS <= at - silent_at <= RUNNING_SECONDS + 1.0


def test_a_broken_connection_says_more_than_a_process_that_is_still_there(idle: Machine) -> None:
    idle.judge.hear(Sign("kernel", TWO.node_id, Kind.RUNNING))
    idle.judge.hear(Sign("a", TWO.node_id, Kind.CUT))
    for _ in range(10):
        idle.now += STEP_SECONDS
        idle.deaths += [(idle.now, death) for death in idle.judge.step(idle.now)]
    assert [death.node for _, death in idle.deaths[:1]] == [TWO]


def test_a_node_that_was_stopped_for_a_moment_lives(idle: Machine) -> None:
    idle.kernel = True
    for _ in range(20):
        idle.silent = {ONE.node_id, TWO.node_id}
        idle.run(0.4)
        idle.thaw()
        idle.run(1.0)
    assert idle.deaths == []


def test_a_stopped_process_of_a_node_that_answers_is_nothing(idle: Machine) -> None:
    idle.judge.hear(Sign("kernel", ONE.node_id, Kind.STOPPED))
    idle.run(60.0)
    assert idle.deaths == []


def test_a_node_that_went_on_and_does_not_answer_is_given_as_long_as_any_other(idle: Machine) -> None:
    idle.silent, silent_at = {ONE.node_id}, idle.now
    idle.judge.hear(Sign("kernel", ONE.node_id, Kind.STOPPED))
    idle.judge.hear(Sign("kernel", ONE.node_id, Kind.UNKNOWN))
    idle.run(4.0)
    assert idle.deaths[0][0] - silent_at >= SILENCE_SECONDS


def test_a_cut_connection_is_waited_for_a_moment_only(idle: Machine) -> None:
    begin = idle.now
    while not idle.deaths and idle.now < begin + 1.0:
        idle.now += STEP_SECONDS
        idle.judge.hear(Sign("a", ONE.node_id, Kind.CUT, idle.now - begin))
        idle.deaths += [(idle.now, death) for death in idle.judge.step(idle.now)]
    ((at, death),) = idle.deaths
    assert at - begin <= CUT_SECONDS + STEP_SECONDS
    assert "broke" in death.why


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("seconds", [3.0, 5.0, 60.0, 3600.0])
def test_a_machine_that_stood_still_has_lost_nobody(idle: Machine, seconds: float, kernel: bool) -> None:
    idle.kernel = kernel
    idle.silent = {HEAD.node_id, ONE.node_id, TWO.node_id}  # the judge was the last one to be stopped
    idle.run(0.5)
    idle.step(seconds)  # and the first to go on
    idle.thaw()
    idle.run(60.0)
    assert idle.deaths == []


def test_a_machine_that_stands_still_again_and_again_loses_nobody(idle: Machine) -> None:
    for _ in range(20):
        idle.silent = {ONE.node_id, TWO.node_id}
        idle.step(5.0)
        idle.thaw()
        idle.run(1.0)
    assert idle.deaths == []


def test_the_head_s_own_node_is_never_dead(idle: Machine) -> None:
    idle.silent = {HEAD.node_id}
    idle.run(600.0)
    idle.judge.hear(Sign("a", HEAD.node_id, Kind.GONE, why="nobody listens there"))
    idle.run(1.0)
    assert idle.deaths == []


def test_while_the_head_s_own_node_does_not_answer_a_silence_of_another_says_little(idle: Machine) -> None:
    idle.silent = {HEAD.node_id, ONE.node_id}
    idle.run(6.0)
    idle.thaw()
    idle.run(10.0)
    assert idle.deaths == []


def test_a_node_whose_answers_are_slow_is_given_longer_and_the_others_are_not(idle: Machine) -> None:
    idle.judge.hear(Sign("a", ONE.node_id, Kind.ANSWERED, 1.0))
    idle.silent, frozen_at = {ONE.node_id, TWO.node_id}, idle.now
    idle.run(20.0)
    took = {death.node.name: at - frozen_at for at, death in reversed(idle.deaths)}
    assert took["ray-worker-1"] < 3.0
    assert 5.0 < took["ray-worker-0"] < SILENCE_SECONDS + STRETCH  # what is past counts less and less


def test_work_for_every_core_stretches_nothing(idle: Machine) -> None:
    idle.judge.hear(Sign("a", TWO.node_id, Kind.ANSWERED, CALM_SECONDS))
    idle.silent, frozen_at = {TWO.node_id}, idle.now
    idle.run(4.0)
    assert idle.deaths[0][0] - frozen_at <= 2.7


def test_a_load_that_is_over_is_forgotten(idle: Machine) -> None:
    idle.hop = lambda: 0.5
    idle.run(60.0)
    idle.hop = lambda: 0.0
    idle.run(60.0)
    idle.silent, frozen_at = {ONE.node_id}, idle.now
    idle.run(4.0)
    assert idle.deaths[0][0] - frozen_at < 3.0


def busy(seed: int) -> Callable[[], float]:
    """The time for a core among 75 others: mostly some slices, at times many more."""
    chance = random.Random(seed)
    return lambda: chance.expovariate(1 / 0.15) if chance.random() < 0.98 else chance.uniform(0.5, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_half_an_hour_of_150_runnable_processes_that_begin_at_once_costs_no_node(
    idle: Machine, seed: int
) -> None:
    idle.hop = busy(seed)
    idle.run(1800.0)
    assert idle.deaths == []


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_is_frozen_under_such_a_load_is_found_all_the_same(idle: Machine, seed: int) -> None:
    idle.hop = busy(seed)
    idle.run(60.0)
    idle.silent, frozen_at = {TWO.node_id}, idle.now
    idle.run(300.0)
    assert {death.node for _, death in idle.deaths} == {TWO}
    assert idle.deaths[0][0] - frozen_at < 3 * LONGEST_SECONDS


def test_a_node_that_left_the_list_is_forgotten_and_comes_back_as_a_new_one(idle: Machine) -> None:
    idle.silent = {ONE.node_id}
    idle.run(2.0)
    idle.judge.know((HEAD, TWO))
    idle.run(5.0)
    idle.thaw()
    idle.judge.know(NODES)
    idle.run(5.0)
    assert idle.deaths == []


def test_a_node_that_one_of_two_witnesses_hears_lives(idle: Machine) -> None:
    idle.silent = {ONE.node_id}
    for _ in range(20):
        idle.run(1.0)
        idle.judge.hear(Sign("another", ONE.node_id, Kind.ANSWERED, 0.001))
    assert idle.deaths == []


def test_a_node_of_which_nobody_has_said_anything_is_not_judged() -> None:
    judge = Judge(0.0)
    judge.know(NODES)
    assert [judge.step(0.1 * number) for number in range(1, 100)] == [()] * 99
