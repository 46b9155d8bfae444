"""Which end of a training goes into the ledger as early stopping. The libraries are stood in for."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from raylab_ledger import early


class Trainer:
    """Fits as Lightning does: the sign is taken down at the begin, and stays up after an early end."""

    def __init__(self, stops: bool) -> None:
        self.stops, self.should_stop = stops, True

    def fit(self, epochs: int, *, fails: bool = False) -> int:
        self.should_stop = False
        if fails:
            raise RuntimeError("CUDA out of memory")
        self.should_stop = self.stops
        return epochs


class Container:
    """Asks XGBoost's callbacks."""

    def __init__(self, before: bool = False, after: bool = False) -> None:
        self.before, self.after = before, after

    def before_iteration(self, model: str, epoch: int) -> bool:
        return self.before

    def after_iteration(self, model: str, epoch: int) -> bool:
        return self.after

    def after_training(self, model: str) -> str:
        return model


@pytest.fixture
def records() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def record(records: list[dict[str, Any]]) -> Any:
    return lambda event, **fields: records.append({"event": event, **fields})


@pytest.mark.parametrize("stops", [True, False])
def test_the_end_of_a_fit_says_whether_it_stopped_early(stops: bool, record: Any, records: list[Any]) -> None:
    watched = type("Watched", (Trainer,), {"fit": Trainer.fit})
    early.watch_fit(watched, "should_stop", "Lightning", record)
    early.watch_fit(watched, "should_stop", "Lightning", record)  # the same module under another name
    assert watched(stops).fit(3) == 3
    assert records == [{"event": "fit_ended", "by": "Lightning", "early": stops}]


def test_a_sign_that_cannot_be_read_takes_nothing_from_a_fit(record: Any, records: list[Any]) -> None:
    def broken(self: Any) -> bool:
        raise ValueError("the trainer is closed")

    fit = lambda self, epochs: epochs  # noqa: E731
    watched = type("Watched", (), {"fit": fit, "should_stop": property(broken)})
    early.watch_fit(watched, "should_stop", "Lightning", record)
    assert watched().fit(3) == 3
    assert records == []


def test_a_fit_that_fails_has_not_ended(record: Any, records: list[Any]) -> None:
    watched = type("Watched", (Trainer,), {"fit": Trainer.fit})
    early.watch_fit(watched, "should_stop", "Lightning", record)
    with pytest.raises(RuntimeError, match="out of memory"):
        watched(True).fit(3, fails=True)
    assert records == []


@pytest.mark.parametrize(
    ("container", "stopped"), [({}, False), ({"before": True}, True), ({"after": True}, True)]
)
def test_a_callback_of_xgboost_that_says_stop_is_early_stopping(
    container: dict[str, bool], stopped: bool, record: Any, records: list[Any]
) -> None:
    watched = type("Watched", (Container,), {})
    early.watch_rounds(watched, record)
    early.watch_rounds(watched, record)
    asked = watched(**container)
    answers = asked.before_iteration("model", 1), asked.after_iteration("model", 1)
    assert answers == (asked.before, asked.after)
    assert asked.after_training("model") == "model"
    assert records == [{"event": "fit_ended", "by": "XGBoost", "early": stopped}]


@pytest.mark.parametrize("module", ["pytorch_lightning.trainer.trainer", "xgboost.callback"])
def test_what_is_watched_is_where_the_library_has_it(module: str) -> None:
    library = pytest.importorskip(module.partition(".")[0])
    assert library
    imported = importlib.import_module(module)
    if module == early.ROUNDS:
        wanted = ("before_iteration", "after_iteration", "after_training")
        assert all(hasattr(imported.CallbackContainer, name) for name in wanted)
    else:
        _, name, sign = early.FITS[module]
        assert getattr(imported, name)(logger=False, enable_checkpointing=False).__dict__[sign] is False
