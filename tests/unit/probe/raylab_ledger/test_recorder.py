"""What goes into a ledger, and that nothing which goes wrong with it reaches the training."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from raylab_ledger import recorder
from raylab_ledger.recorder import LEDGER_VARIABLE, Recorder, manifest, open_recorder, plain

PATIENCE = 10.0


class Store:
    """Keeps what is written; refuses the first `refusals` writes, which `gate` can hold back."""

    def __init__(self, refusals: int = 0) -> None:
        self.objects: dict[str, bytes] = {}
        self.refusals = refusals
        self.gate = threading.Event()
        self.gate.set()
        self.written = threading.Event()

    def write(self, name: str, data: bytes) -> None:
        assert self.gate.wait(PATIENCE)
        if self.refusals:
            self.refusals -= 1
            raise OSError("the store is down")
        assert name not in self.objects
        self.objects[name] = data
        self.written.set()

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = [line for name in sorted(self.objects) for line in self.objects[name].splitlines()]
        return [json.loads(line) for line in lines]


def recorder_on(store: Store, naps: list[float] | None = None) -> Recorder:
    nap = naps.append if naps is not None else lambda _: None
    return Recorder(store.write, "j1/rank0", {"job": "j1", "rank": 0}, clock=lambda: 12.5, sleep=nap)


def test_an_event_is_a_line_with_its_time_and_what_is_common_to_the_process() -> None:
    store = Store()
    ledger = recorder_on(store)

    ledger.record("report", metrics={"epoch": 1})

    assert ledger.flush(PATIENCE)
    assert store.events == [
        {
            "schema": "ledger/1", "event": "report", "at": 12.5, "stream": "rank0", "n": 1,
            "job": "j1", "rank": 0, "metrics": {"epoch": 1},
        }
    ]  # fmt: skip
    assert all(name.startswith("j1/rank0-") and name.endswith(".jsonl") for name in store.objects)


def test_all_events_arrive_in_order() -> None:
    store = Store()
    ledger = recorder_on(store)

    for number in range(200):
        ledger.record("report", number=number)

    assert ledger.flush(PATIENCE)
    assert [event["number"] for event in store.events] == list(range(200))
    assert [event["n"] for event in store.events] == list(range(1, 201))


@dataclass
class Spent:
    """See the fixture; the last of `times` is now."""

    store: Store
    ledger: Recorder
    times: list[float]


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Spent:
    """A recorder that has made all the objects that it may make at any pace; it earns one in 1000 s."""
    monkeypatch.setattr(recorder, "OBJECTS_A_SECOND", 0.001)
    store, times = Store(), [12.5]
    ledger = Recorder(store.write, "rank0", {}, clock=lambda: times[-1])
    for _ in range(recorder.BURST):
        ledger.record("report", checkpoint=None)
        assert ledger.flush(PATIENCE)
    assert len(store.objects) == recorder.BURST
    return Spent(store, ledger, times)


def test_reports_that_come_faster_than_objects_gather_until_somebody_waits_for_them(spent: Spent) -> None:
    for _ in range(50):
        spent.ledger.record("report", checkpoint=None)

    assert len(spent.store.objects) == recorder.BURST
    assert spent.ledger.flush(PATIENCE)
    assert len(spent.store.objects) == recorder.BURST + 1
    assert [event["n"] for event in spent.store.events] == list(range(1, recorder.BURST + 51))


@pytest.mark.parametrize("entry", [{"event": "report", "checkpoint": "s3://ray/c"}, {"event": "weights"}])
def test_what_a_verdict_depends_on_takes_waiting_reports_with_it(spent: Spent, entry: dict[str, Any]) -> None:
    spent.ledger.record("report", checkpoint=None)
    spent.ledger.record("report", checkpoint=None)
    spent.store.written.clear()

    spent.ledger.record(**entry)

    assert spent.store.written.wait(PATIENCE)
    assert len(spent.store.objects) == recorder.BURST + 1
    assert len(spent.store.events) == recorder.BURST + 3


def test_an_object_is_earned_with_time(spent: Spent) -> None:
    spent.times.append(12.5 + 2 / recorder.OBJECTS_A_SECOND)
    spent.store.written.clear()

    spent.ledger.record("report", checkpoint=None)

    assert spent.store.written.wait(PATIENCE)


def test_a_store_that_is_down_for_a_while_loses_nothing_and_is_told_of_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, naps = Store(refusals=3), list[float]()
    ledger = recorder_on(store, naps)

    ledger.record("report", number=1)

    assert ledger.flush(PATIENCE)
    assert [event["number"] for event in store.events] == [1]
    assert naps == [recorder.RETRY_SECONDS] * 3
    printed = capsys.readouterr().out
    assert printed.count("the ledger cannot be written (the store is down)") == 1
    assert "not-verified" in printed


def test_a_flush_gives_up_in_time() -> None:
    store = Store()
    store.gate.clear()
    ledger = recorder_on(store)

    ledger.record("report")

    assert not ledger.flush(0.01)
    store.gate.set()
    assert ledger.flush(PATIENCE)


def test_when_the_store_stays_down_the_oldest_events_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_BUFFERED_EVENTS", 3)
    store = Store(refusals=1)
    store.gate.clear()
    ledger = recorder_on(store)
    for number in range(10):
        ledger.record("report", number=number)

    store.gate.set()

    assert ledger.flush(PATIENCE)
    assert [event["number"] for event in store.events][-3:] == [7, 8, 9]
    assert len(store.events) <= 4
    assert [event["n"] for event in store.events][-3:] == [8, 9, 10]  # a reader sees that some are missing


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Scalar:
    """As numpy's and torch's: `size` is a number in one, a method in the other."""

    def __init__(self, value: object) -> None:
        self.value = value

    def size(self) -> tuple[()]:
        return ()

    def item(self) -> object:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def __repr__(self) -> str:
        return "a tensor"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("text", "text"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ({1: (2, {"a": None})}, {"1": [2, {"a": None}]}),
        (Scalar(7), 7),
        (Scalar(float("inf")), "inf"),
        (Scalar(ValueError("only one element tensors")), "a tensor"),
        ({"a"}, "{'a'}"),
        ("x" * 500, "x" * 500),
        (Path("y" * 500), f"PosixPath('{'y' * 500}')"[:200]),
        (Broken(), "<Broken: RuntimeError>"),
    ],
)
def test_values_become_what_json_can_hold(value: object, expected: object) -> None:
    written = plain(value)

    assert written == expected
    assert type(written) is type(expected)
    json.dumps(written, allow_nan=False)


def test_a_value_that_contains_itself_ends() -> None:
    value: dict[str, Any] = {}
    value["self"] = value

    json.dumps(plain(value))


def test_recording_something_strange_never_raises_and_holds_no_flush_up() -> None:
    store = Store()
    ledger = recorder_on(store)

    ledger.record("report", metrics={"epoch": Broken()})

    assert ledger.flush(PATIENCE)
    assert store.events[0]["metrics"] == {"epoch": "<Broken: RuntimeError>"}


def test_a_manifest_has_size_and_sha256_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.bin").write_bytes(b"a" * 3_000_000)
    (tmp_path / "sub" / "empty").write_bytes(b"")

    assert manifest(tmp_path) == {
        "a.bin": {"size": 3_000_000, "sha256": hashlib.sha256(b"a" * 3_000_000).hexdigest()},
        "sub/empty": {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()},
    }


def test_a_checkpoint_that_cannot_be_read_is_not_known_instead_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)

    assert manifest(tmp_path) is None


def test_without_the_variable_no_ledger_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LEDGER_VARIABLE, raising=False)

    assert open_recorder("j1", "controller", {}) is None


def test_an_unusable_address_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unusable(uri: str) -> recorder.Write:
        raise ValueError("unknown scheme")

    monkeypatch.setenv(LEDGER_VARIABLE, "nonsense://x")
    monkeypatch.setattr(recorder, "pyarrow_writer", unusable)

    assert open_recorder("j1", "controller", {}) is None
    assert "nonsense://x is unusable: unknown scheme" in caplog.text


def test_two_processes_of_one_rank_never_write_to_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    monkeypatch.setenv(LEDGER_VARIABLE, "s3://ray/.raylab/ledger")
    monkeypatch.setattr(recorder, "pyarrow_writer", lambda uri: store.write)

    for _ in range(2):
        ledger = open_recorder("j1", "rank0", {"rank": 0})
        assert ledger is not None
        ledger.record("report")
        assert ledger.flush(PATIENCE)

    assert len(store.objects) == 2
    assert all(name.startswith("j1/rank0-") for name in store.objects)
    assert {event["job"] for event in store.events} == {"j1"}
