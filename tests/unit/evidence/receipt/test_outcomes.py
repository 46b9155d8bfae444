"""Receipts after faults that are not the loss of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.receipt import CheckDocument, Preemption, ReceiptDocument, Steering
from lab.evidence.ledger import Event
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord, Verdict, judge
from lab.evidence.receipt.expected import Expected, Traits
from lab.evidence.receipt.questions import QUESTIONS, RESUME, WENT_ON
from lab.faults import find_fault
from tests.fakes.ledger import counted
from tests.unit.data.stories import (
    AT,
    HEAD,
    NODES,
    UNHURT,
    Story,
    content,
    event,
    evidence,
    uri,
)

STORED = {uri(n): content(n) for n in range(1, 6)}
WITH_PIDS = tuple(
    event("attempt_started", at, n, workers=[{"rank": 0, "node_id": node, "pid": pid}])
    for at, n, node, pid in ((1.0, 1, "a", 11), (8.7, 2, "b", 22))
)


def fault(name: str, target: str = "minio", **more: Any) -> FaultRecord:
    kind = find_fault(name).kind
    given: dict[str, Any] = {"node_id": "", "reverted_at": 12.0, **more}
    return FaultRecord(name, target, at=AT, expected=kind.expected, traits=kind.traits, **given)


def located(story: Story) -> tuple[Event, ...]:
    """The story's events, with the processes of its ranks."""
    return counted((*(e for e in story.events() if e.event != "attempt_started"), *WITH_PIDS))


def outcome(receipt: ReceiptDocument) -> tuple[str, tuple[str, ...]]:
    return receipt.verdict.value, tuple(c.name for c in receipt.checks if not c.passed)


def check(receipt: ReceiptDocument, name: str) -> CheckDocument:
    return next(c for c in receipt.checks if c.name == name)


# A training process


def rank_lost(story: Story | None = None, events: tuple[Event, ...] | None = None) -> Evidence:
    recorded = events if events is not None else located(story or Story())
    record = fault("rank-kill", "ray-worker-0", node_id="a")
    return evidence(events=recorded, fault=record, nodes=UNHURT, stored=STORED)


def test_a_rank_that_was_killed_and_replaced_is_recovered_from() -> None:
    receipt = judge(rank_lost())
    assert outcome(receipt) == ("recovered", ())
    assert "attempt 2 ran in 1 new process on ray-worker-1" in check(receipt, "new processes").detail


def test_ranks_may_start_again_on_the_node_they_were_on() -> None:
    again = tuple(
        replace(e, fields={"workers": [{"rank": 0, "node_id": "a", "pid": 33}]})
        if e.event == "attempt_started" and e.attempt == 2
        else e
        for e in located(Story())
    )
    assert judge(rank_lost(events=again)).verdict is Verdict.RECOVERED


def test_of_two_runs_on_a_node_the_one_whose_process_was_killed_counts() -> None:
    calm = Story(run="other", takes_over=False, first=(1, 2, 3, 4, 5), without=("attempt_started",)).events()
    other = event("attempt_started", 1.0, 1, run="other", workers=[{"rank": 0, "node_id": "a", "pid": 12}])
    both = rank_lost(events=counted((*located(Story()), *calm, other)))
    assert judge(both).verdict is Verdict.NOT_VERIFIED, "whose process it was is not known"
    receipt = judge(replace(both, fault=replace(both.fault, pid=11)))
    assert (receipt.verdict, receipt.run) == (Verdict.RECOVERED, "run")


def test_the_same_process_is_no_new_one() -> None:
    same = tuple(
        replace(e, fields={"workers": [{"rank": 0, "node_id": "a", "pid": 11}]})
        if e.event == "attempt_started" and e.attempt == 2
        else e
        for e in located(Story())
    )
    assert outcome(judge(rank_lost(events=same))) == ("failed", ("new processes",))


def test_without_the_processes_it_is_not_known_that_they_are_new() -> None:
    assert outcome(judge(rank_lost(events=Story().events())))[0] == "not-verified"


def test_a_rank_fault_that_nobody_noticed_is_not_verified() -> None:
    calm = located(Story(takes_over=False, first=(1, 2, 3, 4, 5)))
    receipt = judge(rank_lost(events=calm))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "went on undisturbed" in receipt.reason


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_training_that_goes_on_with_what_is_no_number_is_not_undisturbed(value: str) -> None:
    calm = [
        replace(e, fields={**e.fields, "metrics": {**e.fields["metrics"], "loss": value}})  # type: ignore[dict-item]
        if e.event == "report" and e.at > rank_lost().fault.at
        else e
        for e in located(Story(takes_over=False, first=(1, 2, 3, 4, 5)))
    ]
    receipt = judge(rank_lost(events=counted(calm)))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert f"attempt 1 trained on with loss {value} from epoch 4 on, and nothing ended it" in receipt.reason


@pytest.mark.parametrize(
    ("name", "over", "verdict"),
    [
        ("rank-hang", 5.0, "recovered"), ("rank-hang", 0.5, "not-verified"),
        ("disk-full", 0.5, "not-verified"),
        ("pause", 0.5, "not-verified"), ("s3-slow", 0.5, "not-verified"), ("s3-down", 0.5, "not-verified"),
    ],
)  # fmt: skip
def test_a_failure_long_after_the_fault_was_over_is_not_of_the_fault(
    name: str, over: float, verdict: str
) -> None:
    where = {"target": "minio"} if name.startswith("s3") else {"target": "ray-worker-0", "node_id": "a"}
    record = fault(name, **where, reverted_at=4.5 + over, store_refusals=9, slowest_read=9.0)
    receipt = judge(replace(rank_lost(), fault=replace(record, at=4.5)))
    assert receipt.verdict.value == verdict, receipt.reason
    assert ("attempt 1 went on after the fault was over" in receipt.reason) == (over < 1)


def test_a_node_that_is_lost_for_good_may_have_reported_until_it_was() -> None:
    killed = evidence(events=located(Story()), stored=STORED)
    early = replace(killed, fault=replace(killed.fault, at=4.5, reverted_at=5.0))
    assert judge(early).verdict is Verdict.RECOVERED


# A node


@pytest.mark.parametrize(
    ("name", "lives", "verdict"),
    [("pause", True, "not-verified"), ("pause", False, "failed"), ("kill", False, "failed")],
)
def test_an_attempt_may_run_again_on_a_node_that_lived_through_its_fault(
    name: str, lives: bool, verdict: str
) -> None:
    record = fault(name, "ray-worker-0", node_id="a")
    story = Story(nodes=(("a",), ("a",)))
    given = evidence(events=story.events(), fault=record, nodes=UNHURT if lives else NODES, stored=STORED)
    receipt = judge(given)
    assert (receipt.verdict.value, check(receipt, "moved").passed) == (verdict, False)
    assert "the very node of ray-worker-0" in check(receipt, "moved").detail


# A checkpoint

REFUSED = event("checkpoint_refused", 8.3, 2, uri=uri(3), reason="its size changed", instead=uri(2))


def damaged(*, said: bool = True, loads: int = 2, first: int = 3) -> Evidence:
    story = Story(second=tuple(range(first, 6)), loads=(loads,), more=(REFUSED,) if said else ())
    record = fault("checkpoint-corrupt", damaged=(uri(3),))
    return evidence(events=located(story), fault=record, nodes=UNHURT, stored=STORED)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it() -> None:
    receipt = judge(damaged())
    assert outcome(receipt) == ("recovered", ())
    assert "checkpoint_3 was refused" in check(receipt, "newest intact checkpoint").detail
    assert check(receipt, "little lost").detail.startswith("1 epoch repeated")


def test_a_damaged_checkpoint_must_be_named() -> None:
    assert outcome(judge(damaged(said=False))) == ("failed", ("newest intact checkpoint",))


def test_to_load_the_damaged_checkpoint_is_a_failure() -> None:
    receipt = judge(damaged(loads=3, first=4))
    assert receipt.verdict is Verdict.FAILED
    assert "newest intact checkpoint" in outcome(receipt)[1]


def test_to_go_back_further_than_needed_is_a_failure() -> None:
    assert judge(damaged(loads=1, first=2)).verdict is Verdict.FAILED


def killed_later(*refused: Event, damaged: tuple[str, ...] = (uri(3),)) -> ReceiptDocument:
    """A rank is killed after checkpoint 3 was damaged, passed over and put back, before another is saved."""
    story = Story(first=(1, 2, 3), second=(3, 4, 5), loads=(2,), more=refused)
    before = fault("checkpoint-corrupt", damaged=damaged, reverted_at=6.9)
    kill = fault("rank-kill", "ray-worker-0", node_id="a")
    earlier = replace(before, at=6.4)
    return judge(evidence(events=located(story), fault=kill, nodes=UNHURT, stored=STORED, others=(earlier,)))


def test_a_checkpoint_that_was_refused_is_not_the_newest_once_it_is_put_back() -> None:
    receipt = killed_later(replace(REFUSED, at=6.6, attempt=1))
    assert outcome(receipt) == ("recovered", ())


@pytest.mark.parametrize(
    ("refused", "damaged"),
    [
        ((), (uri(3),)),  # put back in time, so nobody refused it
        ((replace(REFUSED, at=25.0),), (uri(3),)),  # refused later
        ((replace(REFUSED, at=6.6, attempt=1),), (uri(1),)),  # refused, although nobody had damaged it
    ],
)
def test_a_checkpoint_that_was_put_back_is_the_newest_otherwise(
    refused: tuple[Event, ...], damaged: tuple[str, ...]
) -> None:
    assert "not the newest" in check(killed_later(*refused, damaged=damaged), "right checkpoint").detail


# The store


def store(
    story: Story | None = None,
    *,
    refusals: int = 9,
    status: str = "SUCCEEDED",
    message: str = "",
    **more: Any,
) -> Evidence:
    calm = story or Story(takes_over=False, first=(1, 2, 3, 4, 5))
    record = fault("s3-down", reverted_at=9.0, store_refusals=refusals)
    given: dict[str, Any] = {"stored": STORED, **more}
    return evidence(
        events=calm.events(), fault=record, nodes=UNHURT, job_status=status, job_message=message, **given
    )


def test_training_that_waited_for_the_store_did_as_expected() -> None:
    receipt = judge(store())
    assert outcome(receipt) == ("as-expected", ())
    assert receipt.verdict.good
    assert "epoch 5 came 3.1 s after the fault" in receipt.reason


def test_training_that_resumed_after_the_store_was_away_is_recovered() -> None:
    assert outcome(judge(store(Story()))) == ("recovered", ())


def test_a_job_that_fails_and_names_the_store_did_as_expected() -> None:
    failed = Story(takes_over=False, error="OSError")
    receipt = judge(store(failed, status="FAILED", message="OSError: AWS Error: no connection to S3"))
    assert outcome(receipt) == ("as-expected", ())
    assert "a new run could resume from epoch 3" in check(receipt, "went on").detail


def test_a_job_that_resumes_and_then_fails_has_not_recovered() -> None:
    receipt = judge(store(Story(), status="FAILED", message="OSError: AWS Error: no connection to S3"))
    assert receipt.attempts[-1].first_epoch
    assert receipt.verdict is not Verdict.RECOVERED
    assert "the job failed" in receipt.reason


def test_a_job_that_fails_without_a_word_about_the_store_failed() -> None:
    failed = Story(takes_over=False, error="ValueError: 7")
    receipt = judge(store(failed, status="FAILED", message="ValueError: 7"))
    assert outcome(receipt) == ("failed", ("job finished",))


@pytest.mark.parametrize("name", ["s3-down", "slow-network", "clock-skew", "head-kill"])
@pytest.mark.parametrize("message", ["OSError: AWS Error: no connection to S3", "IndexError: bucket 7"])
def test_a_job_that_failed_once_it_had_gone_on_after_the_fault_failed_of_another_reason(
    name: str, message: str
) -> None:
    went_on = Story(takes_over=False, first=(1, 2, 3, 4, 5), error=message)
    record = fault(name, node_id="a" if name != "head-kill" else "h", reverted_at=9.0, store_refusals=9)
    steering = Steering("WARN", "its clock", AT + 0.1, AT + 0.2, None)
    given = replace(store(went_on, status="FAILED", message=message), fault=record, health=steering)
    receipt = judge(replace(given, nodes=NEW_HEAD) if name == "head-kill" else given)
    assert outcome(receipt) == ("not-verified", ("job finished",))
    assert "attempt 1 had gone on after the fault was over" in receipt.reason
    assert message in receipt.reason


def test_a_fault_that_only_slows_training_down_is_no_reason_to_fail() -> None:
    failed = store(Story(takes_over=False, error="OSError"), status="FAILED", message="OSError: S3 is away")
    record = fault("slow-network", "ray-worker-0", reverted_at=9.0)
    assert outcome(judge(replace(failed, fault=record)))[0] == "failed"


@pytest.mark.parametrize(
    "message",
    ["IndexError: bucket 7 is out of range", "RuntimeError: Trying to resize storage", "KeyError: 'laws'"],
)
def test_a_bucket_of_the_trainings_own_is_not_the_store(message: str) -> None:
    failed = Story(takes_over=False, error=message)
    assert outcome(judge(store(failed, status="FAILED", message=message))) == ("failed", ("job finished",))


def test_when_a_job_failed_is_not_known_without_the_end_of_its_run() -> None:
    failed = Story(takes_over=False, error="OSError", without=("run_finished",))
    receipt = judge(store(failed, status="FAILED", message="OSError: S3 is away"))
    assert outcome(receipt) == ("not-verified", ("job finished",))


@pytest.mark.parametrize(
    ("second", "loads", "verdict"),
    [((4, 5), (3,), "as-expected"), ((1, 2), (), "restarted-from-scratch"), ((3, 4), (2,), "failed")],
)
def test_a_job_that_may_fail_may_not_begin_again_from_the_start(
    second: tuple[int, ...], loads: tuple[int, ...], verdict: str
) -> None:
    again = Story(second=second, loads=loads, asks="newest" if loads else None, error="OSError")
    given = store(again, status="FAILED", message="OSError: AWS Error: no connection to S3")
    receipt = judge(replace(given, fault=replace(given.fault, reverted_at=29.0)))
    assert receipt.verdict.value == verdict, receipt.reason


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({**STORED, uri(2): content(9)}, "checkpoint_2 (epoch 2) is not as it was saved"),
        ({u: files for u, files in STORED.items() if u != uri(2)}, "checkpoint_2 (epoch 2) is gone"),
    ],
)
def test_a_checkpoint_that_was_lost_is_a_failure(stored: dict[str, Any], says: str) -> None:
    receipt = judge(store(stored=stored))
    assert outcome(receipt) == ("failed", ("nothing saved is lost",))
    assert says in receipt.reason


def keeps(given: Evidence, number: int | None, best_by: str | None = None) -> Evidence:
    """The same, of a training that keeps so many checkpoints; None: all."""
    plan = {"num_to_keep": number, "checkpoint_score_attribute": best_by}
    events = (
        replace(e, fields={**e.fields, **plan}) if e.event == "run_started" else e for e in given.events
    )
    return replace(given, events=tuple(events))


def test_checkpoints_that_training_itself_lets_go_are_not_lost() -> None:
    kept = {u: files for u, files in STORED.items() if u in (uri(4), uri(5))}
    receipt = judge(keeps(store(stored=kept), 2))
    assert outcome(receipt) == ("as-expected", ())
    assert "3 deleted by the training itself: it keeps the 2 newest" in (
        check(receipt, "nothing saved is lost").detail
    )


@pytest.mark.parametrize("there", [(), (3,), (4, 5)])
def test_a_training_that_keeps_all_deletes_none(there: tuple[int, ...]) -> None:
    receipt = judge(keeps(store(stored={uri(n): content(n) for n in there}), None))
    assert outcome(receipt) == ("failed", ("nothing saved is lost",))
    assert "checkpoint_1 (epoch 1) is gone" in check(receipt, "nothing saved is lost").detail


@pytest.mark.parametrize(("keep", "verdict"), [(2, "as-expected"), (3, "not-verified"), (9, "not-verified")])
def test_fewer_than_the_newest_few_are_not_known_to_be_let_go(keep: int, verdict: str) -> None:
    later_only = {uri(n): content(n) for n in (4, 5)}
    assert outcome(judge(keeps(store(stored=later_only), keep)))[0] == verdict


def test_where_it_is_not_known_how_many_are_kept_missing_ones_are_not_known_to_be_let_go() -> None:
    receipt = judge(store(stored={uri(n): content(n) for n in (4, 5)}))
    assert outcome(receipt) == ("not-verified", ("nothing saved is lost",))


def test_those_let_go_are_not_lost_when_the_job_ends_with_the_fault() -> None:
    failed = Story(takes_over=False, error="OSError")
    ended = keeps(store(failed, status="FAILED", message="S3 is away", stored={uri(3): content(3)}), 1)
    assert outcome(judge(ended)) == ("as-expected", ())
    gone = replace(ended, stored={uri(1): content(1), uri(2): content(2)})
    assert "checkpoint_3 (epoch 3) is gone" in check(judge(gone), "nothing saved is lost").detail


def test_a_checkpoint_that_was_put_back_says_nothing_of_those_after_it() -> None:
    put_back = fault("checkpoint-corrupt", damaged=(uri(1),), reverted_at=3.5)
    kept = {u: files for u, files in STORED.items() if u in (uri(1), uri(4), uri(5))}
    without = judge(keeps(store(stored=kept), 2))
    assert outcome(without) == ("failed", ("nothing saved is lost",))
    receipt = judge(keeps(store(stored=kept, others=(put_back,)), 2))
    assert outcome(receipt) == ("as-expected", ())


def test_a_checkpoint_that_could_not_be_read_back_is_not_known_to_be_gone() -> None:
    stored = {uri(n): content(n) for n in (2, 3)}
    problems = (f"{uri(1)} could not be read back: the store is away",)
    receipt = judge(keeps(store(stored=stored, problems=problems), None))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "checkpoint_1 (epoch 1) could not be read back" in check(receipt, "nothing saved is lost").detail


LASTED = Story(takes_over=False, first=(1, 2, 3, 4, 5))
BROKEN_OFF = Story(takes_over=False, error="OSError")


@pytest.mark.parametrize(
    ("story", "stored", "verdict", "says"),
    [
        (
            LASTED,
            (1, 5),
            "as-expected",
            "2 deleted by the training itself: it keeps the 2 best by val_loss",
        ),
        (LASTED, (4, 5), "as-expected", "0 checkpoints from before the fault intact; 3 deleted"),
        (BROKEN_OFF, (1, 3), "as-expected", "1 deleted by the training itself"),
        (BROKEN_OFF, (3,), "not-verified", "deleted 2 itself is not known"),
        (BROKEN_OFF, (1, 2), "failed", "checkpoint_3 (epoch 3) is gone"),
    ],
)
def test_a_training_that_keeps_the_best_may_delete_any_but_the_newest(
    story: Story, stored: tuple[int, ...], verdict: str, says: str
) -> None:
    more: dict[str, Any] = {"stored": {uri(n): content(n) for n in stored}}
    if story.error:
        more.update(status="FAILED", message="S3 is away")
    receipt = judge(keeps(store(story, **more), 2, "val_loss"))
    assert receipt.verdict.value == verdict
    assert says in check(receipt, "nothing saved is lost").detail


def test_a_store_that_answered_all_the_time_was_not_away() -> None:
    assert judge(store(refusals=0)).verdict is Verdict.NOT_VERIFIED


def test_training_that_never_reports_again_is_no_success() -> None:
    receipt = judge(store(Story(takes_over=False), stored={u: STORED[u] for u in map(uri, (1, 2, 3))}))
    assert outcome(receipt) == ("not-verified", ("job finished",))


@pytest.mark.parametrize(("slowest", "verdict"), [(0.4, "as-expected"), (0.1, "not-verified")])
def test_a_slow_store_must_have_been_felt(slowest: float, verdict: str) -> None:
    record = fault(
        "s3-slow", Expected.SLOWED, reverted_at=9.0, slowest_read=slowest, parameters={"delay": 0.5}
    )
    assert outcome(judge(replace(store(), fault=record)))[0] == verdict


def test_a_slow_network_that_nobody_had_to_recover_from_is_as_expected() -> None:
    record = fault("slow-network", "ray-worker-0", reverted_at=9.0)
    assert outcome(judge(replace(store(), fault=record))) == ("as-expected", ())


# The head


def head(nodes: tuple[NodeRecord, ...], **more: Any) -> Evidence:
    record = fault("head-kill", "ray-head", node_id="h", reverted_at=9.0)
    return replace(store(**more), fault=record, nodes=nodes)


NEW_HEAD = (
    *UNHURT[1:],
    replace(HEAD, alive=False, ended_at=7.5),
    replace(HEAD, node_id="h2", started_at=8.0),
)


def test_a_job_that_goes_on_under_a_new_head_did_as_expected() -> None:
    assert outcome(judge(head(NEW_HEAD))) == ("as-expected", ())


def test_a_job_that_fails_with_its_head_and_says_so_did_as_expected() -> None:
    failed = Story(takes_over=False, error=None)
    receipt = judge(head(NEW_HEAD, story=failed, status="FAILED", message="the head of the cluster was lost"))
    assert outcome(receipt) == ("as-expected", ())
    assert outcome(judge(head(NEW_HEAD, story=failed, status="FAILED", message=""))) == (
        "failed",
        ("job finished",),
    )


def test_a_job_that_was_submitted_again_and_failed_is_told() -> None:
    lost = replace(
        head(NEW_HEAD, story=Story(), status="FAILED", message="KeyError: 'x'"), resubmitted_as="again"
    )
    receipt = judge(lost)
    assert receipt.verdict is Verdict.FAILED
    assert "job again, which went on with it, failed: KeyError" in receipt.reason


def test_a_head_that_stayed_was_not_lost() -> None:
    assert judge(head(NODES)).verdict is Verdict.NOT_VERIFIED


# All


ROWS = [
    rank_lost(), damaged(), damaged(said=False), store(), store(refusals=0), head(NEW_HEAD)
]  # fmt: skip


@pytest.mark.parametrize("given", ROWS)
def test_every_receipt_follows_the_schema_and_asks_what_its_outcome_needs(given: Evidence) -> None:
    document = plain(judge(given))
    assert [c["id"] for c in document["checks"]] == list(QUESTIONS[given.fault.expected])
    validated(document)


def test_a_training_that_had_to_start_again_is_asked_for_all_of_a_resume_whatever_the_fault() -> None:
    document = plain(judge(store(Story())))
    names = [c["id"] for c in document["checks"]]
    assert names[3:-1] == list(RESUME)
    assert WENT_ON not in names
    validated(document)


def validated(document: dict[str, Any]) -> None:
    assert plain(parse(ReceiptDocument, document, "receipt")) == document


@pytest.mark.parametrize("given", [row for row in ROWS if not judge(row).verdict.good])
def test_events_that_are_missing_never_make_a_success(given: Evidence) -> None:
    for name in {e.event for e in given.events}:
        events = tuple(e for e in given.events if e.event != name)
        assert not judge(replace(given, events=events)).verdict.good, name


# A preemption

PREEMPTION = Preemption("red/paper", "red", "blue", "InCohortReclamation", "", 7.9, 8.0, 8.1)


def preempted(preemption: Preemption | None = PREEMPTION, story: Story | None = None) -> Evidence:
    """A job whose first attempt was stopped for another one, so that Ray Train detected no failure."""
    whole = (story or Story()).events()
    events = tuple(e for e in whole if e.event not in ("failure_detected", "attempt_ended"))
    record = FaultRecord(
        "preemption", "ann/night-run", "", AT, reverted_at=8.1, expected=Expected.PREEMPTED,
        traits=Traits("was preempted"),
    )  # fmt: skip
    return evidence(
        events=counted(events), fault=record, nodes=UNHURT, stored=STORED, preemption=preemption,
        resubmitted_as="job-2",
    )  # fmt: skip


def test_a_preempted_job_that_resumed_from_its_newest_checkpoint_is_recovered() -> None:
    receipt = judge(preempted())
    assert outcome(receipt) == ("recovered", ())
    assert check(receipt, "a real fault").detail.startswith(
        "preempted by red/paper of red (InCohortReclamation) in attempt 1, after 3 checkpoints"
    )
    assert "after 0.9 s; red/paper was admitted after 1.0 s" in check(receipt, "gave way").detail
    document = plain(receipt)
    assert document["preemption"]["by"] == "red/paper"
    assert document["expected"]["outcome"] == "preempted"
    validated(document)


def test_a_preempted_job_that_began_again_from_the_start_is_told_so() -> None:
    story = Story(second=(1, 2, 3, 4, 5), asks=None, loads=())
    assert judge(preempted(story=story)).verdict is Verdict.RESTARTED


@pytest.mark.parametrize(
    ("preemption", "verdict", "name", "says"),
    [
        (None, "not-verified", "gave way", "not known"),
        (replace(PREEMPTION, by_admitted_at=7.5), "failed", "gave way", "had been admitted before"),
        (replace(PREEMPTION, by_admitted_at=None), "not-verified", "gave way", "has not been admitted"),
        (replace(PREEMPTION, gave_way_at=None), "not-verified", "gave way", "has not given its quota"),
        (replace(PREEMPTION, admitted_again_at=None), "not-verified", "gave way", "waits for its turn"),
    ],
)  # fmt: skip
def test_what_the_queues_recorded_decides(
    preemption: Preemption | None, verdict: str, name: str, says: str
) -> None:
    receipt = judge(preempted(preemption))
    assert receipt.verdict.value == verdict
    assert not check(receipt, name).passed
    assert says in check(receipt, name).detail


def test_a_preemption_on_demand_names_no_other_job() -> None:
    receipt = judge(preempted(replace(PREEMPTION, by="", by_queue="", by_admitted_at=None)))
    assert receipt.verdict is Verdict.RECOVERED
    assert "preempted on demand" in check(receipt, "a real fault").detail


# A node whose health check fails

MOVED = Steering(
    "EVICT", "ray-worker-0 gpu-0: ecc", AT + 0.5, AT + 0.6, AT + 30.0, "AutopilotNoExecute", AT + 1.0
)


def sick(steering: Steering | None = MOVED, name: str = "gpu-sick") -> Evidence:
    """A job whose first attempt was reset because of its node's health: Ray Train detected no failure."""
    whole = Story().events()
    events = tuple(e for e in whole if e.event not in ("failure_detected", "attempt_ended"))
    record = fault(name, "ray-worker-0", node_id="a")
    return evidence(
        events=counted(events),
        fault=record,
        nodes=UNHURT,
        stored=STORED,
        health=steering,
        resubmitted_as="job-2",
    )


def test_a_job_that_was_moved_from_a_sick_gpu_has_recovered() -> None:
    receipt = judge(sick())
    assert outcome(receipt) == ("recovered", ())
    assert check(receipt, "a real fault").detail.startswith("noticed after 0.5 s: ray-worker-0 gpu-0: ecc")
    assert "took no new work after 0.6 s, and again after 30.0 s" in check(receipt, "avoided").detail
    assert "no retry charged; attempt 2 ran on" in check(receipt, "moved, no retry charged").detail
    document = plain(receipt)
    assert document["health"]["reset"] == "AutopilotNoExecute"
    validated(document)


def test_a_moved_job_worked_until_it_was_reset_however_late_it_goes_on() -> None:
    given = sick()
    later = tuple(replace(e, at=e.at + 15.0) if e.attempt == 2 else e for e in given.events)
    late = replace(given, events=counted(later))
    assert outcome(judge(late)) == ("recovered", ())
    unknown = judge(replace(late, health=replace(MOVED, reset_at=None)))
    assert "more were done before the fault is not known" in check(unknown, "little lost").detail


@pytest.mark.parametrize(
    ("steering", "verdict", "name", "says"),
    [
        (None, "not-verified", "a real fault", "no health check has reported"),
        (replace(MOVED, avoided_at=None), "failed", "avoided", "took new work all the time"),
        (replace(MOVED, charged=True), "failed", "moved, no retry charged", "was charged as a retry"),
        (replace(MOVED, reset=""), "not-verified", "moved, no retry charged", "the job was not reset"),
    ],
)
def test_what_the_controller_recorded_of_health_decides(
    steering: Steering | None, verdict: str, name: str, says: str
) -> None:
    receipt = judge(sick(steering))
    assert receipt.verdict.value == verdict
    assert not check(receipt, name).passed
    assert says in check(receipt, name).detail


def test_an_attempt_that_began_on_the_closed_node_was_not_kept_off() -> None:
    given = sick()
    back = tuple(replace(n, service="ray-worker-0") if n.node_id == "b" else n for n in given.nodes)
    receipt = judge(replace(given, nodes=back))
    assert receipt.verdict.value == "failed"
    assert "attempt 2 began on ray-worker-0" in check(receipt, "avoided").detail
    assert "ran on ray-worker-0 again" in check(receipt, "moved, no retry charged").detail


def test_a_resume_after_a_fault_that_says_not_what_it_damaged_is_not_verified() -> None:
    record = fault("checkpoint-corrupt", damaged=())
    receipt = judge(replace(rank_lost(), fault=record))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert any("not known which checkpoint was damaged" in c.detail for c in receipt.checks)
