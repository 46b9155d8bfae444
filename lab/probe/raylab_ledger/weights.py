"""Fingerprints of weights: those that a rank begins to train with, and those in the files that it has read.

A script can open its checkpoint and forget it. So a rank records, right before the first step of each of its
optimizers, a fingerprint of every parameter (`weights`), and with each checkpoint that it reads those of the
tensors in its files (`tensors` of `checkpoint_loaded`): `torch.save`, torch.distributed.checkpoint and
safetensors. Of XGBoost and LightGBM it is the trees that a training begins with, and those in a model's file.
Nothing is unpickled, and nothing is imported that the script has not imported: a model of XGBoost's that it
has read before is kept open until it trains with XGBoost.

A fingerprint is a SHA-256 of the size of a tensor's memory and of at most SAMPLES of its 8-byte words, evenly
spaced: training changes all of them. Parameters that are sharded over ranks are in no file as they are; those
are not compared, and `why` says so.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import mmap
import os
import re
import sys
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from raylab_compat.import_hooks import after_import

Record = Callable[..., None]

SAMPLES = 4096
"""Most 8-byte words of a tensor that its fingerprint is of."""

MOST_TENSORS = 4096
"""Most tensors of a rank, or of a checkpoint, whose fingerprints are recorded."""

WORD_BYTES = 8
STORAGE = re.compile(r"(?:.*/)?data/\d+")
"""Name of a tensor's memory in a file of `torch.save` (PyTorch 1.6 and newer), which is a ZIP archive."""

LOCAL_HEADER_BYTES = 30
"""Fixed part of what stands before a member of a ZIP archive; its last four bytes are two lengths."""

BOOSTERS = (".json", ".ubj", ".model", ".xgb", ".bin")
"""Endings of the files of XGBoost's models."""

MOST_UNREAD = 64
"""Most files of a checkpoint that are kept open until XGBoost can read them."""

ZIP = b"PK"
"""Beginning of a file of `torch.save`."""

LIGHTGBM = b"tree\n"
"""Beginning of a file with a model of LightGBM. It is text that says of each tree what it says in memory."""

LIGHTGBM_TREES = re.compile(rb"^Tree=0$.*^end of trees$", re.MULTILINE | re.DOTALL)


def fingerprint(size: int, words: bytes, rest: bytes) -> str:
    """Fingerprint of a memory of `size` bytes by its sampled words, and the bytes after its last word."""
    return hashlib.sha256(b"%d:%b:%b" % (size, words, rest)).hexdigest()[:16]


def stride_of(size: int) -> int:
    """Distance of two sampled words of a memory of so many bytes, in words."""
    return max(1, -(-(size // WORD_BYTES) // SAMPLES))


# What a training begins with


class Weights:
    """Records the parameters of each optimizer in this process right before its first step.

    Only those that the step is to change; each once, however many optimizers have it; and none after the
    first report: from then on an optimizer that is new has parameters that have been trained.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._over = False
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._parameters: dict[int, weakref.ref[Any]] = {}
        self._looked: dict[int, list[tuple[Any, str]]] = {}  # id of an optimizer in its first step
        self._unread: list[tuple[list[IO[bytes]], Callable[[list[str]], None]]] = []

    def watch(self) -> None:
        """Do so from now on, once the script has imported PyTorch, XGBoost or LightGBM."""
        after_import(
            {
                "torch.optim.optimizer": self._watch_torch,
                "xgboost.callback": self._watch_xgboost,
                "lightgbm.basic": self._watch_lightgbm,
            }
        )

    def stop(self) -> None:
        """Record nothing any more."""
        self._over = True
        for files, _ in self._unread:
            for file in files:
                file.close()
        self._unread.clear()

    def read_later(self, folder: str | os.PathLike[str], use: Callable[[list[str]], None]) -> None:
        """Give `use` the fingerprints in files that only XGBoost can read, right before it trains.

        They may be deleted by then. Nothing is done where XGBoost has been imported, and nothing after the
        first report.
        """
        if "xgboost" in sys.modules or self._over:
            return
        paths = sorted(p for p in Path(folder).rglob("*") if p.suffix in BOOSTERS and p.is_file())
        with suppress(OSError):  # as in `before_step`
            self._unread.append(([path.open("rb") for path in paths[:MOST_UNREAD]], use))

    def read_unread(self) -> None:
        """Read what `read_later` has kept open, now that XGBoost has been imported."""
        while self._unread:
            files, use = self._unread.pop(0)
            with suppress(Exception):
                trees = [tensor for file in files for tensor in of_saved_booster(file)]
                if trees:
                    use(trees)

    def _watch_torch(self, module: ModuleType) -> None:
        module.register_optimizer_step_pre_hook(self.before_step)
        module.register_optimizer_step_post_hook(self.after_step)

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Look at an optimizer that is seen for the first time, unless its step changes nothing."""
        if self._over or optimizer in self._optimizers or is_idle(optimizer):
            return
        self._optimizers.add(optimizer)
        with suppress(Exception):  # the training comes first
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            new = [parameter for parameter in parameters if not self._knows(parameter)]
            self._parameters.update({id(parameter): weakref.ref(parameter) for parameter in new})
            if why := not_comparable(new):
                self._record("weights", why=why)
            else:
                self._looked[id(optimizer)] = of_parameters(new)

    def _knows(self, parameter: Any) -> bool:
        known = self._parameters.get(id(parameter))
        return known is not None and known() is parameter  # tensors cannot be compared with ==

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Record those that had a gradient: a step may compute them itself, so they are known only now."""
        looked = self._looked.pop(id(optimizer), ())
        if changed := [tensor for parameter, tensor in looked if parameter.grad is not None]:
            self._record("weights", tensors=list(dict.fromkeys(changed)))

    def _watch_xgboost(self, module: ModuleType) -> None:
        container: Any = module.CallbackContainer
        begin = container.before_training

        @functools.wraps(begin)
        def before_training(self_: Any, model: Any) -> Any:
            self.read_unread()
            self._begins_with(of_booster, model)
            return begin(self_, model)

        container.before_training = before_training

    def _watch_lightgbm(self, module: ModuleType) -> None:
        booster: Any = module.Booster
        update, begun = booster.update, weakref.WeakSet[Any]()

        @functools.wraps(update)
        def watched_update(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self_ not in begun:
                begun.add(self_)
                self._begins_with(lambda model: of_lightgbm(model.model_to_string().encode()), self_)
            return update(self_, *args, **kwargs)

        booster.update = watched_update

    def _begins_with(self, trees_of: Callable[[Any], list[str]], model: Any) -> None:
        """Record a model's trees. A script may train it round by round: the first one that has any counts."""
        if not self._over:
            with suppress(Exception):
                trees = trees_of(model)
                self._over = bool(trees)
                self._record("weights", tensors=trees)


def is_idle(optimizer: Any) -> bool:
    """Tell whether a step changes no parameter: frameworks make one to create an optimizer's state."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return all(isinstance(rate, (int, float)) and rate == 0 for rate in rates)


def not_comparable(parameters: Sequence[Any]) -> str:
    """Return why these parameters are not compared to those in files; empty where they can be."""
    if any(hasattr(one, "placements") or type(one).__name__ == "FlatParameter" for one in parameters):
        return "its parameters are sharded over the ranks"
    return f"it has more than {MOST_TENSORS} parameters" if len(parameters) > MOST_TENSORS else ""


def of_parameters(parameters: Iterable[Any]) -> list[tuple[Any, str]]:
    """Each parameter with the fingerprint of the memory that it lies in: several may share one."""
    memories = [(parameter, parameter.detach().untyped_storage()) for parameter in parameters]
    known = {memory.data_ptr(): of_memory(memory) for _, memory in memories}
    return [(parameter, known[memory.data_ptr()]) for parameter, memory in memories]


def of_memory(memory: Any) -> str:
    """Fingerprint of an untyped storage of PyTorch, on whatever device."""
    torch, size = sys.modules["torch"], memory.nbytes()
    data = torch.empty(0, dtype=torch.uint8, device=memory.device).set_(memory)
    whole = size - size % WORD_BYTES
    words = data[:whole].view(torch.int64)[:: stride_of(size)]
    return fingerprint(size, words.cpu().numpy().tobytes(), data[whole:].cpu().numpy().tobytes())


def of_booster(model: Any) -> list[str]:
    """Fingerprint of a model's trees, in a list; none while it has none."""
    trees = model.get_dump(dump_format="json")
    return [hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]] if trees else []


def of_saved_booster(file: IO[bytes]) -> list[str]:
    """As `of_booster`, of a model in an open file, which is closed; none of a file of another kind."""
    with suppress(Exception), file:
        return of_booster(sys.modules["xgboost"].Booster(model_file=bytearray(file.read())))
    return []


def of_lightgbm(text: bytes | mmap.mmap) -> list[str]:
    """As `of_booster`, of a model of LightGBM's that was written down."""
    trees = LIGHTGBM_TREES.search(text)
    return [hashlib.sha256(trees[0]).hexdigest()[:16]] if trees else []


# What is in files


def in_files(folder: str | os.PathLike[str]) -> list[str] | None:
    """Fingerprints of the tensors in the files below a folder; None where there are too many to record."""
    tensors: dict[str, None] = {}
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        with suppress(Exception):  # a file of some other kind, or none any more
            for tensor in _in_file(path):
                tensors[tensor] = None
                if len(tensors) > MOST_TENSORS:
                    return None
    return list(tensors)


def in_bytes(data: bytes) -> list[str]:
    """Fingerprints of the tensors that `torch.save` has written into these bytes."""
    return [_of_bytes(data, begin, size) for begin, size in _in_archives(io.BytesIO(data), data)]


def _in_file(path: Path) -> Iterator[str]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(LIGHTGBM)] == LIGHTGBM:
            yield from of_lightgbm(data)
        elif path.suffix in BOOSTERS and data[: len(ZIP)] != ZIP and "xgboost" in sys.modules:
            yield from of_saved_booster(file)
        else:
            places = _in_safetensors(data) if path.suffix == ".safetensors" else _in_archives(file, data)
            for begin, size in places:
                yield _of_bytes(data, begin, size)


def _of_bytes(data: bytes | mmap.mmap, begin: int, size: int) -> str:
    import numpy

    count = size // WORD_BYTES
    words = numpy.frombuffer(data, numpy.int64, count, begin)[:: stride_of(size)].tobytes() if count else b""
    return fingerprint(size, words, data[begin + count * WORD_BYTES : begin + size])


class _Head(io.RawIOBase):
    """The first `size` bytes of a file, as a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._file.tell(), os.SEEK_END: self._size}[whence]
        return self._file.seek(max(0, begin + offset))

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))


def _in_archives(file: IO[bytes], data: bytes | mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of the memory of each tensor in a file of `torch.save`, whose content `data` is.

    Files of torch.distributed.checkpoint are many such, one after the other: the last one is read first.
    """
    end = len(data)
    while end > 0:
        with zipfile.ZipFile(_Head(file, end)) as archive:
            members = archive.infolist()
        for member in members:
            if member.compress_type == zipfile.ZIP_STORED and STORAGE.fullmatch(member.filename):
                lengths = member.header_offset + LOCAL_HEADER_BYTES - 4
                name, extra = (int.from_bytes(data[n : n + 2], "little") for n in (lengths, lengths + 2))
                yield member.header_offset + LOCAL_HEADER_BYTES + name + extra, member.file_size
        end = min((member.header_offset for member in members), default=0)


def _in_safetensors(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of each tensor: a header's length, a header in JSON, the tensors."""
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            yield begin + first, end - first
