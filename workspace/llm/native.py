"""A step of decoding in C: decode.c, compiled for the machine that it runs on, and called over a cache.

    decode = Decode(model, cache)
    logits = decode([65, 66], [10, 31])     # the newest byte of each of two slots, and its place

It computes what `Inference` does for one byte of every slot, but for rounding. It needs a model on the CPU in
float32, and GCC (gcc, cc, or what CC names), whose OpenMP is that of PyTorch on Linux.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from inference import BLOCK, Cache, angles_of, folded, folded_output
from model import VOCABULARY, Decoder
from torch import Tensor

KERNELS = ("auto", "c", "torch")
"""What computes a step of decoding: decode.c, PyTorch, or the former for every model that it can compute."""

SOURCE = Path(__file__).with_name("decode.c")

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-fPIC", f"-DBLOCK={BLOCK}")

COMPILE_SECONDS = 120.0
"""Timeout of the compiler, which takes a third of a second on an idle machine."""


class UnavailableError(RuntimeError):
    """decode.c cannot be compiled or loaded here; the text says why."""


def settle(kernel: str) -> str:
    """What was asked, but torch for auto where decode.c cannot be compiled.

    A job asks once, for all its engines: they have to round alike. Raises UnavailableError for c.
    """
    if kernel != "torch":
        try:
            library()
        except UnavailableError:
            if kernel == "c":
                raise
            return "torch"
    return kernel


def unfit(model: Decoder) -> str:
    """Reason why decode.c cannot compute a model; empty if it can. Raises UnavailableError."""
    c, weights = model.config, model.embedding.weight
    if weights.dtype != torch.float32 or weights.device.type != "cpu":
        return f"decode.c computes float32 on a CPU, not {weights.dtype} on {weights.device}"
    lanes, panel = library().lanes(), library().panel()
    if c.head % lanes or c.width % panel:
        return (
            f"decode.c needs heads of a multiple of {lanes} numbers and a width of a multiple of {panel} "
            f"on this machine; the model has {c.head} and {c.width}"
        )
    return ""


@functools.cache
def library() -> ctypes.CDLL:
    """decode.c, compiled and loaded. Raises UnavailableError."""
    with tempfile.TemporaryDirectory(prefix="llm-") as folder:
        compiled, linked = f"{folder}/decode.o", f"{folder}/decode.so"
        compiler = _compiler()
        _run([*compiler, *FLAGS, "-c", str(SOURCE), "-o", compiled])
        # Linked without -fopenmp, its threads are those of PyTorch, which has loaded a library of OpenMP.
        _run([*compiler, "-shared", "-nostdlib", compiled, "-o", linked])
        try:
            return ctypes.CDLL(linked)
        except OSError as error:
            raise UnavailableError(f"decode.c was compiled, but not loaded: {error}") from None


def _compiler() -> list[str]:
    """The words that call the C compiler. Raises UnavailableError."""
    if given := os.environ.get("CC"):
        return shlex.split(given)
    for name in ("gcc", "cc"):
        if compiler := shutil.which(name):
            return [compiler]
    raise UnavailableError("there is no C compiler: install gcc, or name one in CC")


def _run(argv: list[str]) -> None:
    """Run the compiler. Raises UnavailableError with what it says."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"the C compiler failed: {error}") from None
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[:5])
        raise UnavailableError(f"{shlex.join(argv)} failed:\n{said}")


class _Layer(ctypes.Structure):
    """`Layer` of decode.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("read", "output", "gate_up", "down", "keys", "values")]


class _Model(ctypes.Structure):
    """`Model` of decode.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("slots", "rows", "layers", "width", "heads", "kv_heads")),
        *((name, ctypes.c_int64) for name in ("head", "inner", "read_width", "inner_width", "output_width")),
        *((name, ctypes.c_void_p) for name in ("embedding", "angles", "to_logits")),
        ("layer", ctypes.POINTER(_Layer)),
        *((name, ctypes.c_void_p) for name in ("x", "normal", "seen", "read", "hidden", "logits")),
    ]  # fmt: skip


class Decode:
    """A step of decoding for all slots of a cache. It is used by one thread."""

    @torch.inference_mode()
    def __init__(self, model: Decoder, cache: Cache) -> None:
        """Raises UnavailableError, and ValueError for a model that decode.c cannot compute."""
        if why := unfit(model):
            raise ValueError(why)
        c, self._library = model.config, library()
        self._panel = self._library.panel()
        self._held: list[Tensor] = [tensor for layer in cache.layers for tensor in layer]
        if not all(tensor.is_contiguous() for tensor in self._held):
            raise ValueError("decode.c needs a whole cache, not a part of one")
        self._places, self._slots = min(cache.places, c.context), self._held[0].shape[1]
        rows = _whole(self._slots, self._library.rows_at_once())
        read, inner = (_whole(n, self._panel) for n in (c.width + 2 * c.kv_heads * c.head, c.inner))
        self._logits = torch.zeros(rows, _whole(VOCABULARY, self._panel))
        layers = (_Layer * c.layers)()
        for number, (block, (keys, values)) in enumerate(zip(model.blocks, cache.layers, strict=True)):
            matrices = folded(block, c)
            gate_up = torch.stack([self._panels(matrices.gate), self._panels(matrices.up)], 1)
            layers[number] = _Layer(
                self._hold(self._panels(matrices.read)), self._hold(self._panels(matrices.output)),
                self._hold(gate_up), self._hold(self._panels(matrices.down)),
                keys.data_ptr(), values.data_ptr(),
            )  # fmt: skip
        self._model = _Model(
            self._slots, rows, c.layers, c.width, c.heads, c.kv_heads, c.head, c.inner,
            read, inner, self._logits.shape[1],
            self._hold(model.embedding.weight.detach()), self._hold(torch.view_as_real(angles_of(c))),
            self._hold(self._panels(folded_output(model))), layers,
            *(self._hold(torch.zeros(rows, n)) for n in (c.width, c.width, c.width, read, inner)),
            self._logits.data_ptr(),
        )  # fmt: skip

    def __call__(self, tokens: Sequence[int], places: Sequence[int]) -> Tensor:
        """Logits (slots, 256) of the byte after each slot's new one, valid until the next call.

        Raises IndexError for a place outside of the context or the cache, or a token that is no byte.
        """
        if not len(tokens) == len(places) == self._slots:
            raise IndexError(f"{self._slots} slots, but {len(tokens)} tokens and {len(places)} places")
        if min(places) < 0 or max(places) >= self._places or min(tokens) < 0 or max(tokens) >= VOCABULARY:
            raise IndexError(f"a place outside of 0..{self._places - 1}, or a token of 0..{VOCABULARY - 1}")
        numbers = ctypes.c_int64 * self._slots
        self._library.decode(
            ctypes.byref(self._model), numbers(*tokens), numbers(*places), torch.get_num_threads()
        )
        return self._logits[: self._slots, :VOCABULARY]

    def _panels(self, weight: Tensor) -> Tensor:
        """A matrix (out, in) as panels (out / PANEL, in, PANEL), filled up with zeros."""
        out, length = weight.shape
        whole = torch.zeros(_whole(out, self._panel), length)
        whole[:out] = weight
        return whole.view(-1, self._panel, length).transpose(1, 2).contiguous()

    def _hold(self, tensor: Tensor) -> int:
        """The address of a tensor, which is kept as long as this object."""
        self._held.append(tensor.contiguous())
        return self._held[-1].data_ptr()


def _whole(number: int, of: int) -> int:
    """`number` rounded up to a multiple of `of`."""
    return -(-number // of) * of
