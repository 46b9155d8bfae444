"""Records early stopping: a training that ended before its planned end because it decided so itself.

What stops a training by itself leaves a sign: `Trainer.should_stop` of Lightning, `Model.stop_training` of
Keras, an answer of XGBoost's callbacks. It is looked at when the fit has returned, and the ledger has it as
`fit_ended`: `by`, the library, and `early`, whether the sign was there. A fit that raises has not ended so.
Nothing is imported, and nothing changed, for a script that uses none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from raylab_compat.around import around
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
    changes = {module: partial(_watch_fit_of, record, *what) for module, what in FITS.items()}
    after_import({**changes, ROUNDS: lambda module: watch_rounds(module.CallbackContainer, record)})


def _watch_fit_of(record: Record, by: str, name: str, sign: str, module: ModuleType) -> None:
    watch_fit(getattr(module, name), sign, by, record)


def watch_fit(owner: Any, sign: str, by: str, record: Record) -> None:
    """Let this class record the end of its fits."""

    def fit(method: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(model, *args, **kwargs)
        with suppress(Exception):  # whatever a class of the script's own does: the fit has returned
            record("fit_ended", by=by, early=getattr(model, sign, False) is True)
        return result

    around(owner, "fit", fit)


def watch_rounds(container: Any, record: Record) -> None:
    """Let XGBoost's callbacks record the end of a training: early if one of them has said stop."""

    def ask(method: Callable[..., Any], callbacks: Any, *args: Any, **kwargs: Any) -> Any:
        answer = method(callbacks, *args, **kwargs)
        callbacks.raylab_stopped = answer or getattr(callbacks, "raylab_stopped", False)
        return answer

    def end(method: Callable[..., Any], callbacks: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(callbacks, *args, **kwargs)
        record("fit_ended", by=XGBOOST, early=bool(getattr(callbacks, "raylab_stopped", False)))
        return result

    around(container, "before_iteration", ask)
    around(container, "after_iteration", ask)
    around(container, "after_training", end)
