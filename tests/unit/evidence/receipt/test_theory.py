"""The judge against trainings of which all is known: it is never fooled, and never accuses an honest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event
from lab.evidence.receipt import Evidence, Verdict, judge
from tests.unit.evidence.receipt.rescues import draw_rescue, evidence_of
from tests.unit.evidence.receipt.tales import LIARS, Script, Tale, draw
from tests.unit.evidence.receipt.trainings import live
from tests.unit.evidence.receipt.worlds import Truth

CASES, MANY_CASES = 600, 100_000
"""Tales that are judged in every run, and with --all and in CI."""
RESCUES = 120
BAD = (Verdict.FAILED, Verdict.RESTARTED)

Events = Sequence[Event]


def some(events: Events, random: Random) -> Events:
    """Without a few events."""
    gone = set(random.sample(range(len(events)), random.randint(1, min(6, len(events)))))
    return [e for n, e in enumerate(events) if n not in gone]


def most(events: Events, random: Random) -> Events:
    """Without half of them or more."""
    kept = random.uniform(0.0, 0.5)
    return [e for e in events if random.random() < kept]


def process(events: Events, random: Random) -> Events:
    """Without one or two processes."""
    streams = sorted({e.stream for e in events})
    gone = random.sample(streams, min(len(streams), random.randint(1, 2)))
    return [e for e in events if e.stream not in gone]


def tail(events: Events, random: Random) -> Events:
    """Without the end of what a process wrote."""
    stream = random.choice(sorted({e.stream for e in events}))
    number = random.randint(1, max(e.number for e in events if e.stream == stream))
    return [e for e in events if e.stream != stream or e.number < number]


def kind(events: Events, random: Random) -> Events:
    """Without all events of a kind."""
    name = random.choice(sorted({e.event for e in events}))
    return [e for e in events if e.event != name]


def late(events: Events, random: Random) -> Events:
    """Only what was there at some moment."""
    end = random.uniform(0.0, events[-1].at)
    return [e for e in events if e.at <= end]


def kind_of_process(events: Events, random: Random) -> Events:
    """Without all events of a kind that one process wrote."""
    one = random.choice(events)
    return [e for e in events if (e.stream, e.event) != (one.stream, one.event)]


LOSSES: tuple[Callable[[Events, Random], Events], ...] = (
    some, most, process, tail, kind, late, kind_of_process
)  # fmt: skip


def worn(evidence: Evidence, random: Random) -> Evidence:
    """The same with parts of it lost, doubled and in another order."""
    events: Events = evidence.events
    for loss in random.sample(LOSSES, random.choice((1, 1, 2))):
        events = loss(events, random) if events else events
    doubled = [*events, *random.choices(events, k=3)] if events else []
    random.shuffle(doubled)
    return replace(
        evidence,
        events=tuple(doubled),
        nodes=() if random.random() < 0.05 else evidence.nodes,
        services=() if random.random() < 0.05 else evidence.services,
        stored={} if random.random() < 0.2 else evidence.stored,
    )


def true(world: Truth, receipt: ReceiptDocument) -> bool:
    """Whether a good verdict is what happened."""
    if receipt.verdict in (Verdict.RECOVERED, Verdict.RESUMED):
        return world.recovered(compared=receipt.verdict is Verdict.RECOVERED)
    return receipt.verdict is not Verdict.AS_EXPECTED or world.went_on()


def check(seed: int) -> None:
    """All properties of one tale and three worn copies of its evidence."""
    random = Random(seed)
    world = live(draw(random))
    assert world.evidence is not None
    whole = judge(world.evidence)
    where = f"seed {seed}: {world.tale}\n{whole.reason}"
    assert true(world, whole), f"not sound: {where}"
    compares = world.tale.compares
    honest = world.recovered(compared=compares)
    if world.tale.honest and (honest or world.went_on()):
        assert whole.verdict not in BAD, f"accused: {where}"
        if world.tale.clear:
            proven = Verdict.RECOVERED if compares else Verdict.RESUMED
            assert whole.verdict is (proven if honest else Verdict.AS_EXPECTED), f"not useful: {where}"
    for _ in range(3):
        part = judge(worn(world.evidence, random))
        assert true(world, part), f"not sound with less: {where}\n{part.reason}"
        better = part.verdict.good and part.verdict is not whole.verdict
        assert not better, f"not monotone: {where}\n{part.verdict}: {part.reason}"


def check_rescue(seed: int) -> None:
    """The same of one training whose survivors go on."""
    random = Random(seed)
    rescue = draw_rescue(random)
    evidence = evidence_of(rescue)
    whole = judge(evidence)
    where = f"seed {seed}: {rescue}\n{whole.reason}"
    assert rescue.as_expected() or not whole.verdict.good, f"not sound: {where}"
    assert whole.verdict is Verdict.AS_EXPECTED or not rescue.as_expected(), f"not useful: {where}"
    for _ in range(3):
        part = judge(worn(evidence, random))
        better = part.verdict.good and part.verdict is not whole.verdict
        assert not better, f"not monotone: {where}\n{part.verdict}: {part.reason}"


@pytest.mark.parametrize("begin", range(0, CASES, 100))
def test_no_training_fools_the_judge_and_no_loss_of_evidence_improves_its_verdict(begin: int) -> None:
    for seed in range(begin, begin + 100):
        check(seed)


@pytest.mark.parametrize("begin", range(0, RESCUES, 60))
def test_no_training_whose_survivors_wait_or_come_back_otherwise_is_as_expected(begin: int) -> None:
    for seed in range(begin, begin + 60):
        check_rescue(seed)


@pytest.mark.parametrize(
    "seed",
    [166, 335, 395, 590, 1440, 1916, 2761, 5285, 7677, 12826, 13092, 13314, 23213, 31249, 33637, 49213],
)
def test_what_was_once_judged_wrongly_is_not_so_again(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("begin", range(CASES, MANY_CASES, 2000))
def test_nor_do_a_hundred_thousand(begin: int) -> None:
    for seed in range(begin, begin + 2000):
        check(seed)
    for seed in range(begin // 5, begin // 5 + 400):
        check_rescue(seed)


@pytest.mark.parametrize("script", LIARS, ids=lambda script: script.name)
@pytest.mark.parametrize("kind", ["kill", "rank-kill", "s3-down", "slow-network", "head-kill", "clock-skew"])
def test_a_liar_is_never_said_to_have_recovered(script: Script, kind: str) -> None:
    world = live(Tale(script, kind, ranks=2))
    assert world.evidence is not None
    assert not world.recovered()
    assert not judge(world.evidence).verdict.good


@pytest.mark.parametrize("kind", ["rank-hang", "s3-down", "slow-network"])
@pytest.mark.parametrize("later", [0.0, 0.5, 2.0, 4.0])
def test_a_fault_that_ended_nothing_is_not_what_training_recovered_from(kind: str, later: float) -> None:
    world = live(Tale(kind=kind, ranks=2, later=later, epochs=12))
    assert world.evidence is not None
    assert world.undisturbed == (later >= 2.0)
    verdict = judge(world.evidence).verdict
    assert verdict is (Verdict.RECOVERED if world.recovered() else Verdict.NOT_VERIFIED)


AFTER_THE_FAULTS = Tale(kind="s3-down", epochs=6, fault=4.5, fails_again=2.2, fails=True)
DONE_TWICE = Tale(epochs=10, fault=8.8, fails_again=1.0, unwritten=1)
WHOM_IT_HIT = Tale(
    kind="preemption", epochs=11, every=3, fault=3.9, unrecorded=2, fails=True, lasts=60.0, harmless=1.6
)
TWO_FAULTS = Tale(
    kind="s3-down", epochs=10, fault=2.7, fails_again=0.55, recorded=True, fails=True, lasts=60.0
)


@pytest.mark.parametrize(
    ("tale", "verdict"),
    [
        (AFTER_THE_FAULTS, Verdict.NOT_VERIFIED),
        (DONE_TWICE, Verdict.RECOVERED),
        (WHOM_IT_HIT, Verdict.NOT_VERIFIED),
        (TWO_FAULTS, Verdict.NOT_VERIFIED),
    ],
    ids=[
        "an attempt that failed before it reported", "work of two attempts", "an unknown attempt",
        "an attempt that another fault ended before it reported",
    ],
)  # fmt: skip
def test_a_tale_that_was_judged_wrong_once(tale: Tale, verdict: Verdict) -> None:
    world = live(tale)
    assert world.evidence is not None
    assert judge(world.evidence).verdict is verdict
    assert world.recovered() == (tale in (DONE_TWICE, WHOM_IT_HIT))


def test_the_generator_makes_every_verdict() -> None:
    missing, seed = set(Verdict), 0
    while missing:
        assert seed < 600, missing
        world = live(draw(Random(seed)))
        missing -= {judge(world.evidence).verdict} if world.evidence else set()
        seed += 1
