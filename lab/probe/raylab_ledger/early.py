"""Records early stopping: a training that ended before its planned end because it decided so itself.

What stops a training by itself leaves a sign: `Trainer.should_stop` of Lightning, `Model.stop_training` of
Keras, an answer of XGBoost's callbacks. It is looked at when the fit has returned, and the ledger has it as
`fit_ended`: `by`, the library, and `early`, whether the sign was there. A fit that raises has not ended so.
Nothing is imported, and nothing changed, for a script that uses none of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

from raylab_compat.import_hooks import after_import

Record = Callable[..., None]

LIGHTNING, KERAS, XGBOOST = "Lightning", "Keras", "XGBoost"

FITS = {
    "pytorch_lightning.trainer.trainer": (LIGHTNING, "Trainer", "should_stop"),
    "lightning.pytorch.trainer.trainer": (LIGHTNING, "Trainer", "should_stop"),
    "keras.src.models.model": (KERAS, "Model", "stop_training"),
    "keras.src.engine.training": (KERAS, "Model", "stop_training"),
}
"""Module -> whose it is, its class with a `fit`, and the attribute that such a fit leaves true when it stops
early. Both packages of Lightning; Keras 3 and 2."""

ROUNDS = "xgboost.callback"
"""The module whose CallbackContainer is asked by XGBoost, round by round, whether to stop."""


def watch_fits(record: Record) -> None:
    """Record the end of every fit in this process, with `record` as of a Recorder."""
    changes: dict[str, Callable[[ModuleType], None]] = {
        module: _fit_change(record, *what) for module, what in FITS.items()
    }
    after_import({**changes, ROUNDS: lambda module: watch_rounds(module.CallbackContainer, record)})


def _fit_change(record: Record, by: str, name: str, sign: str) -> Callable[[ModuleType], None]:
    return lambda module: watch_fit(getattr(module, name), sign, by, record)


def watch_fit(owner: Any, sign: str, by: str, record: Record) -> None:
    """Let this class record the end of its fits; once is enough, also for a module under two names."""
    fit = owner.fit
    if hasattr(fit, "raylab"):
        return

    @functools.wraps(fit)
    def watched_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = fit(self, *args, **kwargs)
        with suppress(Exception):  # whatever a class of the script's own does: the fit has returned
            record("fit_ended", by=by, early=getattr(self, sign, False) is True)
        return result

    watched_fit.raylab = True  # type: ignore[attr-defined]
    owner.fit = watched_fit


def watch_rounds(container: Any, record: Record) -> None:
    """Let XGBoost's callbacks record the end of a training: early if one of them has said stop."""
    after_training = container.after_training
    if hasattr(after_training, "raylab"):
        return
    stopped = "raylab_stopped"

    def watched(ask: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(ask)
        def watched_ask(self: Any, *args: Any, **kwargs: Any) -> Any:
            answer = ask(self, *args, **kwargs)
            if answer:
                setattr(self, stopped, True)
            return answer

        return watched_ask

    @functools.wraps(after_training)
    def watched_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = after_training(self, *args, **kwargs)
        record("fit_ended", by=XGBOOST, early=getattr(self, stopped, False))
        return result

    watched_end.raylab = True  # type: ignore[attr-defined]
    container.before_iteration = watched(container.before_iteration)
    container.after_iteration = watched(container.after_iteration)
    container.after_training = watched_end
