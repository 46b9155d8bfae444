"""Faults that a rank carries out itself at an epoch: raise an exception, or train with NaN.

    python -m raylab_faults.armed set PID exception|nan EPOCH
    python -m raylab_faults.armed clear PID

writes, or removes, a small file that only the process PID looks for, with one `os.stat` before and after
each report (`Armed`; see train.py). `exception` raises a RuntimeError instead of reporting the epoch. `nan`
fills a parameter of the model with NaN after the report of the epoch before, so that the epoch trains with
NaN. An epoch that has passed counts as reached. Output and exit codes are those of `raylab_faults.rank`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from raylab_faults import rank

FOLDER = Path("/tmp")
"""Folder of the files; not TMPDIR, since a job's runtime environment may set another one for the rank."""

KINDS = ("exception", "nan")

PROGRESS_KEYS = ("epoch", "training_iteration", "current_epoch", "step", "global_step")
"""Metrics that can say how far a run is, as in lab.evidence.ledger."""


def file_of(pid: int, folder: Path = FOLDER) -> Path:
    """The file that the process `pid` reads, and no later process with its id. Raises psutil.Error."""
    return folder / f"raylab-armed-{pid}-{rank.start_time(pid)}.json"


def arm(pid: int, kind: str, epoch: float, folder: Path = FOLDER) -> None:
    """Write the file. Raises OSError, psutil.Error."""
    path = file_of(pid, folder)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({"kind": kind, "epoch": epoch}))
    draft.replace(path)


def clear(pid: int, folder: Path = FOLDER) -> None:
    """Remove what was written for this id, whether or not its process still lives. Raises OSError."""
    for path in folder.glob(f"raylab-armed-{pid}-*"):
        path.unlink(missing_ok=True)


def progress_of(metrics: Any) -> float | None:
    """Progress of the run by these metrics; None when they do not say."""
    if not isinstance(metrics, Mapping):
        return None
    for key in PROGRESS_KEYS:
        value = metrics.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return value
    return None


class Armed:
    """Rank's side: reads its file around each report, and does what it says, once."""

    def __init__(
        self,
        record: Callable[..., None],
        flush: Callable[[], None],
        spoil: Callable[[], str] | None = None,
        folder: Path = FOLDER,
    ) -> None:
        """`record` and `flush` write the ledger; `spoil` puts NaN into the model and says where."""
        self._record, self._flush, self._spoil = record, flush, spoil or spoil_a_model
        self._path = file_of(os.getpid(), folder)
        self._order: tuple[str, float] | None = None
        self._fired = False

    def before_report(self, metrics: Any) -> None:
        """Carry out an exception that is ordered for this epoch. Raises RuntimeError."""
        order, progress = self._look(), progress_of(metrics)
        if order and order[0] == "exception" and progress is not None and progress >= order[1]:
            self._done(kind="exception", epoch=progress)
            _raise(progress)

    def after_report(self, metrics: Any) -> None:
        """Put NaN into the model if the next epoch is to train with it."""
        order, progress = self._look(), progress_of(metrics)
        if not order or order[0] != "nan" or progress is None or progress < order[1] - 1:
            return
        try:
            self._done(kind="nan", epoch=progress + 1, parameter=self._spoil())
        except LookupError as error:
            self._done(kind="nan", epoch=progress + 1, problem=str(error))
            print(f"raylab: NaN on purpose is not possible: {error}", flush=True)

    def _look(self) -> tuple[str, float] | None:
        """The order for this process; None when there is none, or it is done."""
        if self._fired:
            return None
        try:
            info = os.lstat(self._path)
        except OSError:
            self._order = None
            return None
        if self._order is None and stat.S_ISREG(info.st_mode) and info.st_uid == os.getuid():
            self._order = self._read()
        return self._order

    def _read(self) -> tuple[str, float] | None:
        try:
            entry = json.loads(self._path.read_text())
            order = str(entry["kind"]), float(entry["epoch"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        self._record("fault_armed", kind=order[0], epoch=order[1])
        return order

    def _done(self, **fields: Any) -> None:
        self._fired = True
        with contextlib.suppress(OSError):
            self._path.unlink()
        self._record("fault_fired", **fields)
        self._flush()


def _raise(epoch: float) -> NoReturn:
    raise RuntimeError(f"raylab: an exception on purpose, at epoch {epoch:g}")


def spoil_a_model() -> str:
    """Fill one parameter of this process's model with NaN; returns its name.

    The model is the LightningModule, or else the torch module with the most trainable numbers. Torch is not
    imported for it. Raises LookupError when there is no model.
    """
    import gc

    torch = sys.modules.get("torch")
    if torch is None:
        raise LookupError("this process does not use torch")
    lightning = _lightning_modules()
    best: tuple[bool, int, Any] | None = None
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.nn.Module):
            size = sum(p.numel() for p in thing.parameters() if _trainable(p))
            rated = (issubclass(type(thing), lightning), size, thing)
            if size and (best is None or rated[:2] > best[:2]):
                best = rated
    if best is None:
        raise LookupError("this process has no torch module with parameters to train")
    name, parameter = next((n, p) for n, p in best[2].named_parameters() if _trainable(p))
    with torch.no_grad():
        parameter.fill_(math.nan)
    return str(name)


def _trainable(parameter: Any) -> bool:
    return bool(parameter.requires_grad and parameter.is_floating_point())


def _lightning_modules() -> tuple[type, ...]:
    packages = (sys.modules.get(name) for name in ("pytorch_lightning", "lightning.pytorch"))
    bases = (getattr(package, "LightningModule", None) for package in packages)
    return tuple(module for module in bases if isinstance(module, type))


def main(argv: Sequence[str], folder: Path = FOLDER) -> int:
    """Write or remove the file, print the answer, return the exit code."""
    import psutil

    order = argv[2:] if len(argv) == 4 and argv[0] == "set" and argv[2] in KINDS else None
    if len(argv) < 2 or not argv[1].isdecimal() or not (order or (argv[0] == "clear" and len(argv) == 2)):
        print(f"usage: {__doc__}")
        return 2
    pid = int(argv[1])
    try:
        if order is None:
            clear(pid, folder)
            return rank.answer(pid, "")
        why = rank.problem(pid)
        if not why:
            arm(pid, order[0], float(order[1]), folder)
        return rank.answer(pid, why)
    except (OSError, ValueError, psutil.Error) as error:
        return rank.answer(pid, f"process {pid} cannot be given its order: {error}", rank.NOT_SENT)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
