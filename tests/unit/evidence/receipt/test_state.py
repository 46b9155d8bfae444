"""Whether the training that goes on is the training that was there: by its states, and what else they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event
from lab.evidence.receipt import Verdict, headline, judge
from lab.flows.labels import words as headed
from tests.fakes.ledger import counted
from tests.unit.data.stories import KEYS, Story, begun, content, event, evidence, files, tensors, uri

ONE, TWO = KEYS
TRAINED = [list(KEYS)]


@dataclass(frozen=True)
class Told:
    """A story whose states are told otherwise: those handed over with report 3, and the beginning after
    it."""

    handed: Mapping[str, Any] = field(default_factory=dict)
    """What the state of epoch 3 has beside its parameters, by part."""
    went_on: tuple[Mapping[str, Any], ...] = ({},)
    """Parts of each beginning of attempt 2, where they are not what was handed over; `fields` are its
    event's."""
    first: tuple[Mapping[str, Any], ...] = ({},)
    """The same of attempt 1, which begins with the weights of epoch 0."""
    more: tuple[Event, ...] = ()
    without: tuple[str, ...] = ()

    def receipt(self, **story: Any) -> ReceiptDocument:
        events = [e for e in Story(**story).events() if e.event not in ("state_begun", *self.without)]
        events = [self._with(e) if e.event == "state_handed" else e for e in events]
        for attempt, at, place, parts in ((1, 1.6, 0, self.first), (2, 10.3, 3, self.went_on)):
            events += [self._begins(attempt, at + n / 100, place, part) for n, part in enumerate(parts)]
        entries = sorted((*events, *self.more), key=lambda e: e.at)
        return judge(evidence(events=counted(replace(e, stream="", number=0) for e in entries)))

    def _with(self, entry: Event) -> Event:
        if entry.fields["report"] != 3 or entry.attempt != 1:
            return entry
        parts = {k: v for k, v in self.handed.items() if k not in ("changed",)}
        return replace(entry, fields={**entry.fields, **_changed(self.handed), "state": _state(3, parts)})

    def _begins(self, attempt: int, at: float, place: int, parts: Mapping[str, Any]) -> Event:
        entry = begun(at, attempt, 0, place)
        state = _state(place, {**(self.handed if attempt == 2 else {}), **parts})
        return replace(entry, fields={**entry.fields, **parts.get("fields", {}), "state": state})


def _state(place: int, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a checkpoint, with other or further tensors, and other parts."""
    digests = dict(zip(KEYS, tensors(place), strict=True)) | dict(parts.get("tensors", {}))
    return {
        "tensors": digests, "order": parts.get("order", TRAINED), "halves": parts.get("halves", {}),
        "moments": parts.get("moments", {}), "counters": parts.get("counters", {}),
        "aside": parts.get("aside", {}),
    }  # fmt: skip


def _changed(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"changed": parts["changed"]} if "changed" in parts else {}


def weights(place: int, *keys: str) -> dict[str, Any]:
    """A beginning with the parameters of another place; only with some of them."""
    other = dict(zip(KEYS, tensors(place), strict=True))
    return {"tensors": {key: other[key] for key in keys or KEYS}}


def again(*parts: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return ({}, *parts)


def load(*digests: str) -> Event:
    """Rank 0 of attempt 2 loads checkpoint 3, whose files hold these tensors."""
    there = files(content(3))
    return event("checkpoint_loaded", 10.2, 2, 0, uri=uri(3), files=there, tensors=list(digests))


MEAN, COUNT = "0.norm.mean", "0.norm.batches"
MOVING = {"tensors": {MEAN: "mean of 3", COUNT: "c3"}, "counters": {COUNT: 30}}
EARLIER = {"tensors": {MEAN: "mean of 0", COUNT: "c0"}, "counters": {COUNT: 0}}

RECOVERED = {
    "the same state": Told(),
    "another optimizer, which steps later": Told(
        {"tensors": {"1.x": "x"}, "order": [list(KEYS), ["1.x"]]},
        ({"order": [list(KEYS)]}, {"fields": {"optimizer": 1}}),
    ),
    "a mean of the weights beside the model": Told({"aside": {"0": "mean of 3:8"}}),
    "a mean that goes on with its count": Told(
        {"counters": {"aside 0.n_averaged": 30}}, ({"counters": {"aside 0.n_averaged": 30}},)
    ),
    "a copy with BatchNorm, as for an evaluation": Told(
        {**MOVING, "counters": {COUNT: 30, "aside 0.norm.batches": 20}},
        ({**MOVING, "counters": {COUNT: 30, "aside 0.norm.batches": 0}},),
        (EARLIER,),
    ),
    "a mean that is made anew later": Told({"aside": {"0": "mean of 3:8"}}, ({"aside": {}},)),
    "a mean beside a module of another size": Told(
        {"aside": {"0": "mean of 3:8"}}, ({"aside": {"7": "mean of 3:8", "0": "helper:8"}},)
    ),
    "a copy of the weights, as for an evaluation": Told(
        {"aside": {"0": tensors(3)[0]}}, ({"aside": {"0": "not yet"}},)
    ),
    "steps to warm up before it was loaded": Told(went_on=({**weights(0)}, {"fields": {"steps": 5}})),
    "a beginning of a framework's own, with gradients of 0": Told(
        went_on=({**weights(0), "fields": {"gradients": False}}, {})
    ),
    "keys of another wrapper, in the same order": Told(
        went_on=({"tensors": {"9.a": tensors(3)[0], "9.b": tensors(3)[1]}, "order": [["9.a", "9.b"]]},)
    ),
    "a mean that a batch has moved since it was loaded": Told(
        MOVING, ({"tensors": {MEAN: "moved", COUNT: "c4"}, "counters": {COUNT: 31}},), (EARLIER,)
    ),
    "a mean that was loaded, without a count": Told(
        {"tensors": {MEAN: "mean of 3"}},
        ({"tensors": {MEAN: "moved"}, "fields": {"loaded": {MEAN: "mean of 3"}}},),
        (EARLIER,),
    ),
    "weights that a script changes before each step, as a rule": Told(
        went_on=(
            {**weights(9), "fields": {"loaded": dict(zip(KEYS, tensors(3), strict=True))}},
            *[weights(9)] * 8,
        ),
        first=({},) * 9,
    ),
}


@pytest.mark.parametrize("story", RECOVERED.values(), ids=RECOVERED)
def test_a_training_goes_on_from_the_state_that_was_handed_over(story: Told) -> None:
    receipt = story.receipt(loads=())
    assert receipt.verdict is Verdict.RECOVERED, receipt.reason


def test_an_optimizer_that_begins_anew_is_said() -> None:
    receipt = Told({"moments": {"0": "m3"}}, ({"moments": {"0": ""}},)).receipt()
    assert receipt.verdict is Verdict.RECOVERED
    (check,) = [check for check in receipt.checks if check.name == "same state"]
    assert check.detail.endswith("; the optimizer's state is new")
    assert headline(receipt) == "recovered, not equal"
    assert headed(receipt).short == "but the optimizer's state is new"


def test_a_step_to_warm_up_is_not_where_an_optimizer_began() -> None:
    warm = {**weights(0), "moments": {"0": ""}}
    receipt = Told({"moments": {"0": "m3"}}, (warm, {"fields": {"steps": 1}})).receipt()
    assert headline(receipt) == "recovered"


def test_an_optimizer_with_a_state_that_is_neither_new_nor_its_own_did_not_go_on() -> None:
    other = Told({"moments": {"0": "m3"}}, ({"moments": {"0": "m9"}},)).receipt()
    assert other.verdict is Verdict.NOT_VERIFIED
    assert other.reason.endswith("of checkpoint_3 (epoch 3), but the optimizer's state is another one")

    def momentous(entry: Event) -> Event:
        if entry.event != "state_handed":
            return entry
        epoch = int(str(entry.fields["report"])) + (3 if entry.attempt == 2 else 0)
        state = _state(epoch, {"moments": {"0": f"m{epoch}"}})
        return replace(entry, fields={**entry.fields, "state": state})

    begins = [begun(1.6, 1, 0, 0), begun(10.3, 2, 0, 3)]
    old = {**begins[1].fields, "state": _state(3, {"moments": {"0": "m1"}})}
    begins[1] = replace(begins[1], fields=old)
    events = [momentous(e) for e in Story().events() if e.event != "state_begun"]
    entries = sorted((*events, *begins), key=lambda e: e.at)
    stale = judge(evidence(events=counted(replace(e, stream="", number=0) for e in entries)))
    assert stale.verdict is Verdict.NOT_VERIFIED
    assert stale.reason.endswith("but the optimizer's state is that of epoch 1")


OTHERWISE: dict[str, tuple[Told, Verdict, str]] = {
    "weights of long before": (
        Told(went_on=(weights(1),)),
        Verdict.FAILED,
        "those of epoch 1, not of checkpoint_3",
    ),
    "weights of the report before": (Told(went_on=(weights(2),)), Verdict.NOT_VERIFIED, "those of epoch 2"),
    "weights of the beginning": (Told(went_on=(weights(0),)), Verdict.FAILED, "that training had begun with"),
    "a part of those": (
        Told(went_on=(weights(0, TWO),)), Verdict.FAILED, "1 of 2 tensors, those that training had begun with"
    ),
    "weights that nobody knows": (Told(went_on=(weights(9),)), Verdict.NOT_VERIFIED, "others than those"),
    "layers in each other's place": (
        Told(went_on=({"tensors": {ONE: tensors(3)[1], TWO: tensors(3)[0]}},)), Verdict.NOT_VERIFIED,
        "other tensors of checkpoint_3 than those",
    ),
    "a frozen part that is new": (
        Told({"tensors": {"0.body": "b"}}, ({"tensors": {"0.body": "new"}},)), Verdict.NOT_VERIFIED,
        "0.body of rank 0 of attempt 2 are new",
    ),
    "a mean of the weights that began anew": (
        Told({"aside": {"0": "mean of 3:8", "1": "x:8"}}, ({"aside": {"0": "new:8", "1": "x:8"}},)),
        Verdict.NOT_VERIFIED,
        "went on without those of checkpoint_3 (epoch 3) for 1 tensor of modules without an optimizer",
    ),
    "a part that joins the optimizer later": (
        Told({}, ({**weights(9, TWO), "order": [[ONE]]},)), Verdict.NOT_VERIFIED, "1 of 2 tensors, others"
    ),
    "parameters that are not seen again": (
        Told({"tensors": {"1.x": "x"}, "order": [[*KEYS, "1.x"]]}, ({"tensors": {}, "order": TRAINED},)),
        Verdict.NOT_VERIFIED,
        "1 of 3 parameters that were trained before checkpoint_3 (epoch 3) are not trained",
    ),
    "a parameter beside them that was a part of another": (
        Told({}, ({"tensors": {"0.out": tensors(3)[0]}, "order": [[*KEYS, "0.out"]]},)),
        Verdict.NOT_VERIFIED, "trains other parameters than those that were handed over with checkpoint_3",
    ),
    "parameters that are there and are trained no more": (
        Told({"tensors": {"0.x": "x"}, "order": [[*KEYS, "0.x"]]}, ({"order": TRAINED},)),
        Verdict.NOT_VERIFIED,
        "1 of 3 parameters that were trained before checkpoint_3 (epoch 3) are not trained",
    ),
    "a mean that began anew": (
        Told(MOVING, ({"tensors": {MEAN: "moved", COUNT: "c1"}, "counters": {COUNT: 1}},), (EARLIER,)),
        Verdict.NOT_VERIFIED, "the count 0.norm.batches of rank 0 of attempt 2 began anew",
    ),
    "a mean of the weights whose count began anew": (
        Told({"counters": {"aside 0.n_averaged": 30}}, ({"counters": {"aside 0.n_averaged": 0}},)),
        Verdict.NOT_VERIFIED, "the count aside 0.n_averaged of rank 0 of attempt 2 began anew",
    ),
    "a mean that is not counted": (
        Told({"tensors": {MEAN: "mean of 3"}}, ({"tensors": {MEAN: "moved"}},), (EARLIER,)), Verdict.RESUMED,
        "every batch changes 0.norm.mean",
    ),
    "new weights after the first step": (
        Told(went_on=again({**weights(9), "fields": {"steps": 1}})), Verdict.NOT_VERIFIED,
        "and then changed it other than by a step",
    ),
    "steps without gradients": (
        Told(went_on=({"fields": {"gradients": False}},)), Verdict.NOT_VERIFIED,
        "made no step of an optimizer",
    ),
    "no steps at all": (Told(went_on=()), Verdict.NOT_VERIFIED, "made no step of an optimizer"),
    "half precision": (
        Told(
            {"halves": {key: ["half"] for key in KEYS}},
            ({**weights(9), "halves": {key: ["half"] for key in KEYS}},),
        ),
        Verdict.RESUMED,
        "in half precision",
    ),
    "half precision, in which a file has had it": (
        Told(
            {}, ({**weights(9), "halves": {ONE: ["h1"], TWO: ["h2"]}},),
            more=(load("h1", "h2"),),
            without=("checkpoint_loaded",),
        ),
        Verdict.RESUMED,
        "in half precision",
    ),
    "half precision of something else in the file": (
        Told(
            {}, ({**weights(9), "halves": {ONE: ["h1"], TWO: ["h2"]}},),
            more=(load("h1", "h2", *tensors(3)),),
            without=("checkpoint_loaded",),
        ),
        Verdict.NOT_VERIFIED, "others than those",
    ),
    "half precision of one layer alone": (
        Told({"halves": {key: ["half"] for key in KEYS}}, ({**weights(9), "halves": {ONE: ["half"]}},)),
        Verdict.NOT_VERIFIED, "others than those",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("story", "verdict", "words"), OTHERWISE.values(), ids=OTHERWISE)
def test_another_state_is_told_apart_by_what_it_is_instead(story: Told, verdict: Verdict, words: str) -> None:
    receipt = story.receipt()
    assert receipt.verdict is verdict, receipt.reason
    assert words in receipt.reason


def test_steps_that_change_nothing_go_on_with_nothing() -> None:
    def still(entry: Event) -> Event:
        late = entry.event == "state_handed" and entry.attempt == 2
        return replace(entry, fields={**entry.fields, "state": _state(3, {})}) if late else entry

    for epochs, verdict in ((range(4, 6), Verdict.NOT_VERIFIED), (range(4, 5), Verdict.RECOVERED)):
        story = Story(second=tuple(epochs), config={"epochs": epochs[-1]})
        receipt = judge(evidence(events=tuple(map(still, story.events()))))
        assert receipt.verdict is verdict, receipt.reason
        assert ("its steps change nothing" in receipt.reason) == (verdict is Verdict.NOT_VERIFIED)


def test_steps_whose_parameters_nothing_trains_are_counted() -> None:
    empty = [event("report", 11.05, 2, 0, metrics={"epoch": 4}, report=1, optimizer_steps=0, empty_steps=10)]
    story = Told(went_on=({"fields": {"gradients": False}},), more=tuple(empty), without=("none",))
    assert "10 steps of rank 0 of attempt 2 had no gradients" in story.receipt().reason


def test_weights_that_are_changed_right_before_a_report_are_not_those_of_its_steps() -> None:
    def changed(entry: Event) -> Event:
        late = entry.event == "state_handed" and (entry.attempt, entry.fields["report"]) == (2, 1)
        return replace(entry, fields={**entry.fields, "changed": [0]}) if late else entry

    receipt = judge(evidence(events=tuple(map(changed, Story().events()))))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "before its first report" in receipt.reason


def test_a_decoy_has_the_optimizer_where_most_of_the_checkpoint_belongs_to_nothing() -> None:
    def sized(entry: Event) -> Event:
        return (
            replace(entry, fields={**entry.fields, "sizes": [4, 4096]})
            if entry.event == "checkpoint_saved"
            else entry
        )

    def decoy(entry: Event) -> Event:
        state = entry.fields.get("state")
        if not isinstance(state, dict):
            return sized(entry)
        return replace(
            entry,
            fields={
                **entry.fields,
                "state": {"tensors": {"d": f"{state['tensors'][ONE]}:4"}, "order": [["d"]]},
            },
        )

    receipt = judge(evidence(events=tuple(map(decoy, Story().events()))))
    assert receipt.verdict is Verdict.RESUMED
    assert "most of checkpoint_3 belongs to no optimizer" in receipt.reason


# More ranks than one

NODES: dict[str, Any] = {"nodes": (("a", "b"), ("b", "a2")), "loads": (3, 3)}
Change = Callable[[Event], Event | None]


def changed(change: Change, **story: Any) -> ReceiptDocument:
    events = [entry for e in Story(**{**NODES, **story}).events() if (entry := change(e)) is not None]
    return judge(evidence(events=counted(replace(e, stream="", number=0) for e in events)))


def apart(entry: Event) -> Event:
    """Each rank has a state of its own."""
    state = entry.fields.get("state")
    if not isinstance(state, dict):
        return entry
    own = {key: f"{digest} of rank {entry.rank}" for key, digest in state["tensors"].items()}
    return replace(entry, fields={**entry.fields, "state": {**state, "tensors": own}})


def test_each_rank_goes_on_from_its_own_state() -> None:
    assert changed(apart).verdict is Verdict.RECOVERED


def test_a_rank_with_the_state_of_another_one_is_named() -> None:
    def wrong(entry: Event) -> Event:
        swapped = replace(entry, rank=0) if entry.event == "state_begun" and entry.attempt == 2 else entry
        return replace(apart(swapped), rank=entry.rank)

    receipt = changed(wrong)
    assert receipt.verdict is Verdict.FAILED
    assert "rank 1 of attempt 2 went on with those of rank 0, not its own" in receipt.reason


def silent(entry: Event) -> Event | None:
    """Rank 1 had no time to look at its state at report 3, and had at the others."""
    late = entry.event == "state_handed" and (entry.attempt, entry.fields["report"]) == (1, 3)
    return None if late and entry.rank == 1 else entry


def test_a_rank_that_was_always_like_another_one_is_compared_with_that() -> None:
    assert changed(silent).verdict is Verdict.RECOVERED


def test_of_one_that_was_not_the_state_is_unknown() -> None:
    def both(entry: Event) -> Event | None:
        kept = silent(entry)
        return None if kept is None else apart(kept)

    receipt = changed(both)
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "the state of rank 1 with checkpoint_3 (epoch 3) is not in the ledger" in receipt.reason


@pytest.mark.parametrize(("change", "verdict"), [(lambda e: e, Verdict.RECOVERED), (apart, Verdict.RESUMED)])
def test_with_fewer_ranks_only_a_state_that_all_had_can_be_compared(change: Change, verdict: Verdict) -> None:
    receipt = changed(change, nodes=(("a", "b"), ("b",)), loads=(3,))
    assert receipt.verdict is verdict, receipt.reason


# Continuity of work


def steps(*counts: tuple[int, ...]) -> dict[str, Any]:
    return {"counted": counts}


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((10, 20, 30), (10, 20), ""),
        ((10, 20, 30), (11, 21), "1 steps more than the usual 10 came before its first report"),
        ((10, 20, 30), (4, 14), ""),
    ],
)
def test_more_steps_before_the_first_report_than_usual_are_another_work(
    first: tuple[int, ...], second: tuple[int, ...], words: str
) -> None:
    receipt = judge(evidence(Story(counted=(first, second))))
    assert receipt.verdict is (Verdict.NOT_VERIFIED if words else Verdict.RECOVERED)
    assert words in receipt.reason


def test_far_fewer_steps_for_each_report_are_another_work() -> None:
    story = Story(second=(4, 5, 6), config={"epochs": 6}, counted=((10, 20, 30), (2, 4, 6)))
    receipt = judge(evidence(story))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "attempt 2 makes 2 steps for each report, where 10 were usual" in receipt.reason


def test_a_second_count_that_falls_back_contradicts_the_first_one() -> None:
    def with_steps(entry: Event) -> Event:
        epoch = entry.payload.metrics.get("epoch") if hasattr(entry.payload, "metrics") else None
        if not isinstance(epoch, int):
            return entry
        done = 10 * (epoch if entry.attempt == 1 else epoch - 3)
        return replace(entry, fields={**entry.fields, "metrics": {"epoch": epoch, "global_step": done}})

    receipt = judge(evidence(events=tuple(map(with_steps, Story().events()))))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "its first report says global_step 10, and that of its checkpoint said 30" in receipt.reason


def test_more_epochs_than_planned_are_not_the_end_that_was_to_come() -> None:
    receipt = judge(evidence(Story(config={"epochs": 4})))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "the last epoch reported is 5, the planned one 4: it did more than was planned" in receipt.reason


def test_an_evaluation_before_the_first_step_is_no_beginning() -> None:
    early = event("report", 10.35, 2, 0, metrics={"epoch": 3}, report=1, optimizer_steps=0)
    receipt = judge(evidence(Story(counted=((10, 20, 30), (10, 20)), more=(early,))))
    assert receipt.verdict is Verdict.RECOVERED, receipt.reason
    assert receipt.timeline.first_report == 4.1


def test_a_beginning_without_steps_that_hands_over_what_is_new_is_one_if_the_run_began_so() -> None:
    """As of a buffer that is filled first."""
    receipt = judge(evidence(Story(counted=((0, 10, 20), (0, 10)))))
    assert receipt.verdict is Verdict.RECOVERED, receipt.reason


def test_a_training_without_an_optimizer_makes_no_fewer_steps_than_before() -> None:
    receipt = judge(
        evidence(Story(second=(4, 5, 6, 7), config={"epochs": 7}, counted=((0, 0, 0), (0, 0, 0, 0))))
    )
    assert receipt.verdict is Verdict.RECOVERED, receipt.reason


def test_an_epoch_that_is_reported_and_was_not_trained_is_none() -> None:
    receipt = judge(evidence(Story(counted=((10, 20, 30), (0, 10)))))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert receipt.reason.endswith("no step came before its first report, where 10 were usual")


# Counted by the recorder alone


@pytest.mark.parametrize("places", [((None, None, None), (None, None)), ((1, 1, 2), (2, 3))])
def test_a_script_that_does_not_say_how_far_it_is_is_judged_by_its_steps(places: tuple[Any, Any]) -> None:
    def stated(entry: Event) -> Event:
        number = entry.fields.get("report")
        if entry.event != "state_handed" or not isinstance(number, int):
            return entry
        place = number if entry.attempt == 1 else 3 + number
        return replace(entry, fields={**entry.fields, "state": _state(place, {})})

    first, second = places
    story = Story(first=first, second=second, loads=(3,), counted=((10, 20, 30), (10, 20)), config={})
    handed = [e for e in Story(counted=((10, 20, 30), (10, 20))).events() if e.event == "state_handed"]
    events = [e for e in story.events() if e.event != "state_handed"] + handed
    entries = [replace(stated(e), stream="", number=0) for e in sorted(events, key=lambda e: e.at)]
    for n, entry in enumerate(entries):
        if "uri" in entry.fields and entry.event.startswith("checkpoint_"):
            number = entry.fields.get("report") or sum(e.event == entry.event for e in entries[: n + 1])
            entries[n] = replace(entry, fields={**entry.fields, "uri": f"s3://ray/run/checkpoint_{number}"})
    receipt = judge(evidence(events=counted(entries)))
    assert receipt.epoch_key == "optimizer step"
    assert "went on with step 31 of its optimizer" in receipt.reason


def test_a_load_that_nobody_saw_is_no_act_of_the_script() -> None:
    receipt = judge(evidence(Story(loads=(), weights=None)))
    assert "labctl saw no read of the checkpoint that ray.train.get_checkpoint() gave it" in receipt.reason
