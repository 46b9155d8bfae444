"""Every attempt after a fault counts, by the clock of its own controller, and with all that it has left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event, History
from lab.evidence.receipt import Evidence, Verdict, judge, work
from lab.evidence.receipt.case import Case
from lab.faults import find_fault
from tests.fakes.ledger import counted
from tests.unit.data.stories import FAULT, Story, event, evidence
from tests.unit.evidence.receipt.tales import HONEST, LIARS, Script, Tale
from tests.unit.evidence.receipt.trainings import live


def lived(tale: Tale) -> Evidence:
    evidence = live(tale).evidence
    assert evidence is not None
    return evidence


def judged(evidence: Evidence, events: Iterable[Event]) -> ReceiptDocument:
    return judge(replace(evidence, events=tuple(events)))


def unwritten(*, fails_after: float) -> ReceiptDocument:
    """The store is away, and what the ranks of the second attempt did cannot be written to it."""
    evidence = lived(Tale(kind="s3-down", fails_again=fails_after))
    dead = next(e.at for e in evidence.events if e.event == "attempt_started" and e.attempt == 2)
    trains = replace(event("training_started", dead + 0.05, 2), run_id="first")
    events = [e for e in evidence.events if e.attempt != 2 or e.rank is None]
    return judged(evidence, counted([*events, trains]))


def test_an_attempt_that_began_and_failed_while_the_store_was_away_owes_it_nothing() -> None:
    assert unwritten(fails_after=0.3).verdict is Verdict.RECOVERED


def test_one_that_failed_when_the_store_was_back_does() -> None:
    receipt = unwritten(fails_after=0.9)
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "rank 0 of attempt 2 has recorded nothing" in receipt.reason


@pytest.mark.parametrize("silence", [2.2, 8.0])  # in which reports fit that nobody knows of: one, or four
def test_a_checkpoint_of_a_report_that_did_not_return_is_still_being_uploaded_too(silence: float) -> None:
    evidence = lived(Tale(kind="rank-kill", lag=3, fault=4.4, epochs=12))
    at = evidence.fault.at
    later = [replace(e, at=e.at + silence) if e.at > at else e for e in evidence.events]
    late = replace(evidence, fault=replace(evidence.fault, at=at + silence, done_at=at + silence))
    last = [e for e in later if (e.event, e.attempt) == ("report", 1)][-1]
    receipt = judged(late, counted(e for e in later if e is not last))
    assert receipt.verdict is Verdict.RECOVERED
    detail = next(check.detail for check in receipt.checks if check.name == "little lost")
    assert "the newest 3 ones were still being uploaded" in detail


def behind(script: Script, seconds: float) -> ReceiptDocument:
    """A driver is started again, 3 s after the fault, where the clock is so many seconds behind."""
    evidence = lived(Tale(script, kind="slow-network", fault=4.4, driver="dies"))
    sooner = replace(evidence, fault=replace(evidence.fault, at=evidence.fault.at - 3.0))
    events = [replace(e, at=e.at - seconds) if e.run_id == "second" else e for e in evidence.events]
    return judged(sooner, events)


@pytest.mark.parametrize("seconds", [0.0, 2.2])
def test_the_newest_checkpoint_is_that_of_the_attempts_before_whatever_the_clock_of_their_controller(
    seconds: float,
) -> None:
    older = next(s for s in LIARS if s.name == "loads an older one")
    assert behind(older, seconds).verdict is Verdict.FAILED
    assert behind(HONEST[0], seconds).verdict is Verdict.RECOVERED


def test_reports_that_ray_train_took_up_and_a_rank_did_not_leave_are_missed() -> None:
    """What a rank did in its last reports is not known then, such as going back to its first epochs."""
    evidence = lived(Tale(kind="rank-kill", ranks=2))
    reports = [e for e in evidence.events if e.event == "report" and e.attempt == 2 and e.rank == 1]
    receipt = judged(evidence, (e for e in evidence.events if e not in reports[-2:]))
    assert judge(evidence).verdict is Verdict.RECOVERED
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "rank 1 of attempt 2 lacks 2 reports" in receipt.reason


def test_a_rank_that_the_next_fault_ended_need_not_have_written_its_last_report() -> None:
    evidence = lived(Tale(kind="rank-kill", fails_again=2.2))
    last = [e for e in evidence.events if e.event == "report" and e.attempt == 2][-1]
    next_fault = replace(evidence.fault, at=last.at + 0.15)
    left = [e for e in evidence.events if e is not last]
    assert judged(evidence, left).verdict is Verdict.NOT_VERIFIED
    assert judged(replace(evidence, others=(next_fault,)), left).verdict is Verdict.RECOVERED


def failed_twice(*, saves: bool) -> ReceiptDocument:
    """The second attempt trains three epochs and fails; the third goes on from what is saved."""
    once, twice = (lived(Tale(kind="rank-kill", fails_again=lasts)) for lasts in (0.0, 3.2))
    if saves:
        return judge(twice)
    unsaved = [
        replace(e, fields={**e.fields, "checkpoint": None}) if e.event == "report" and e.attempt == 2 else e
        for e in twice.events
        if e.attempt < 2 or (e.attempt == 2 and e.event not in ("checkpoint_saved", "checkpoint_committed"))
    ]
    third = [replace(e, attempt=3, at=e.at + 7.2) for e in once.events if e.attempt == 2]
    return judged(twice, counted([*unsaved, *third]))


def test_work_that_a_later_attempt_did_again_counts_too() -> None:
    assert failed_twice(saves=True).verdict is Verdict.RECOVERED
    receipt = failed_twice(saves=False)
    assert (receipt.verdict, receipt.lost_epochs) == (Verdict.FAILED, 3)
    assert receipt.reason == "little lost: 3 epochs repeated; checkpoints are 1 apart"


@pytest.mark.parametrize(("silent", "verdict"), [(1.5, Verdict.RECOVERED), (7.0, Verdict.NOT_VERIFIED)])
def test_what_an_attempt_of_unknown_pace_did_in_a_long_silence_is_not_known(
    silent: float, verdict: Verdict
) -> None:
    """It reported once, and its controller is gone; those after it are slower, at 7 s an epoch."""
    evidence = lived(Tale(kind="rank-kill", fault=1.2, driver="dies"))
    first = [e for e in evidence.events if e.run_id == "first"]
    began = next(e.at for e in evidence.events if e.run_id == "second")
    later = [
        replace(e, at=began + silent + (e.at - began) * 3.5) for e in evidence.events if e.run_id == "second"
    ]
    heard = max(e.at for e in first if e.rank == 0)
    quiet = replace(evidence, fault=replace(evidence.fault, at=heard + silent))
    imported = [replace(e, at=e.at - 4.0) if e.event.startswith(("run_", "attempt_")) else e for e in first]
    assert judged(quiet, (*imported, *later)).verdict is verdict


@pytest.mark.parametrize(("key", "places", "more"), [("epoch", (1, 2, 3), 1), ("step", (25, 50, 75), 25)])
def test_a_report_that_may_have_been_made_and_lost_is_counted_in_the_unit_of_the_run(
    key: str, places: tuple[int, ...], more: int
) -> None:
    four = event("failure_detected", 8.05, decision="RETRY", reports=4)
    goes_on = places[-1] + places[0]
    story = Story(first=places, second=(goes_on,), loads=(places[-1],), key=key, more=(four,))
    given = evidence(story)
    (run,) = History.of(given.events).runs
    assert work.unseen(Case(given, run)) == more


def announced(story: Story) -> Evidence:
    """The end of its node was announced at 4.5 s, after the second report; the node ended at 7.5 s."""
    given, kind = evidence(story), find_fault("drain").kind
    fault = replace(given.fault, kind=kind.name, traits=kind.traits, at=4.5, done_at=7.5)
    return replace(given, fault=fault)


def test_what_was_done_between_the_announcement_of_an_end_and_the_end_counts() -> None:
    notice = event("preemption_notice", 5.0, rank=0)
    receipt = judge(announced(Story(more=(notice,))))
    assert (receipt.verdict, receipt.lost_epochs) == (Verdict.RECOVERED, 0)
    detail = next(check.detail for check in receipt.checks if check.name == FAULT)
    assert "was announced to end, and ended in attempt 1" in detail
    assert detail.endswith("Ray Train told the script of it after 0.5 s")


def test_an_attempt_may_train_unseen_until_the_end_that_was_announced() -> None:
    given = announced(Story(first=(1, 2), second=(3, 4, 5), loads=(2,)))
    (run,) = History.of(given.events).runs
    assert work.unseen(Case(given, run)) == 3, "from 4 s to 7.5 s, at the fastest pace of 1 s"
    assert work.unseen(Case(replace(given, fault=replace(given.fault, done_at=4.5)), run)) == 0


@pytest.mark.parametrize("after", [0.0, 0.2, 6.0])
def test_a_job_that_outlasts_a_further_fault_does_not_fail_of_it(after: float) -> None:
    """The job fails at its end, at 23.3 s; the further fault ends that many seconds before."""
    given = lived(Tale(kind="rank-kill", epochs=12, fails=True, lasts=1.0, harmless=2.6))
    (further,) = given.others
    end = next(e.at for e in given.events if e.event == "run_finished")
    receipt = judge(replace(given, others=(replace(further, reverted_at=end - after),)))
    assert receipt.verdict is (Verdict.FAILED if after > 1.0 else Verdict.RECOVERED), receipt.reason


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ((), "whether training had gone on before"),
        (("attempt_ended", "run_finished"), "lacks the end of the run"),
    ],
)
def test_whether_it_did_is_not_known_without_its_last_reports_and_its_end(
    end: tuple[str, ...], says: str
) -> None:
    given = lived(Tale(kind="rank-kill", epochs=12, fails=True, lasts=1.0, harmless=2.6))
    lost, since = ("report", "checkpoint_saved", "checkpoint_committed", *end), given.others[0].at
    receipt = judged(given, counted(e for e in given.events if e.at < since or e.event not in lost))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert says in receipt.reason


@pytest.mark.parametrize("clocks", [(0.3, 0.3, 0.0, 0.0), (-0.3, 0.3, 0.0, 0.0)])
def test_a_name_that_returns_is_paired_whatever_the_clocks_of_nodes(clocks: tuple[float, ...]) -> None:
    tale = Tale(kind="checkpoint-corrupt", fault=3.6, fails_again=2.4, names_by_epoch=True, clocks=clocks)
    assert judge(lived(tale)).verdict is Verdict.RECOVERED


@pytest.mark.parametrize("unrecorded", [1, 2])
def test_a_commit_that_a_killed_controller_did_not_record_is_known_from_who_was_given_it(
    unrecorded: int,
) -> None:
    lost = lived(Tale(kind="rank-kill", fault=3.6, driver="dies", unrecorded=unrecorded))
    assert judge(lost).verdict is Verdict.RECOVERED
    nobody = counted(e for e in lost.events if e.event != "get_checkpoint")
    receipt = judged(lost, nobody)
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "whether checkpoint_103 was committed before its controller was lost" in receipt.reason


def test_an_evaluation_before_training_is_no_epoch() -> None:
    """Epochs 0 to 5 of 6: of a script that counts from 1, and evaluates first, one is missing."""
    assert judge(lived(Tale(evaluates=True))).verdict is Verdict.RECOVERED
    assert judge(lived(Tale(from_zero=True))).verdict is Verdict.RECOVERED
    receipt = judge(lived(Tale(evaluates=True, short=1)))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "ended without an error at epoch 7 of 8" in receipt.reason


def test_a_fault_that_comes_before_another_one_is_over_accuses_nobody() -> None:
    given = lived(Tale(kind="slow-network", interrupts=False, fault=1.4, harmless=2.1))
    assert judge(given).verdict is Verdict.NOT_VERIFIED


TAKES_STATE, LEAVES_STATE = (script for script in HONEST if script.keeps)


@pytest.mark.parametrize(
    "tale",
    [
        pytest.param(Tale(evaluates=True, fails_again=0.8), id="an attempt that only evaluated"),
        pytest.param(Tale(kind="head-kill", evaluates=True, fault=2.8), id="evaluations are no pace"),
        pytest.param(Tale(TAKES_STATE, "checkpoint-corrupt"), id="a state instead of a damaged checkpoint"),
        pytest.param(Tale(LEAVES_STATE, fault=3.8, fails_again=0.9), id="a state was left, nothing reported"),
        pytest.param(Tale(driver="ends", then=4), id="a driver that ended with an error, and more ranks"),
        pytest.param(Tale(ranks=3, then=1, resized=True, fails_again=2.2), id="fewer ranks, and all again"),
    ],
)
def test_an_honest_training_has_recovered(tale: Tale) -> None:
    receipt = judge(lived(tale))
    assert receipt.verdict is Verdict.RECOVERED, receipt.reason
