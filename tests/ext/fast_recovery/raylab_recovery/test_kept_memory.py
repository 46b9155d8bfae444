"""Ranks that keep freed memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("ray.train")

from raylab_recovery import kept_memory
from raylab_recovery.kept_memory import (
    BLOCK_BYTES,
    KEPT_BYTES,
    MMAP_THRESHOLD,
    TRIM_THRESHOLD,
    KeptMemory,
    keep,
)


class Malloc:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, parameter: int, value: int) -> int:
        self.calls.append((parameter, value))
        return 1


def test_malloc_keeps_large_blocks_and_the_end_of_its_heap() -> None:
    malloc = Malloc()
    keep(malloc, {"PATH": "/bin"})
    assert malloc.calls == [(MMAP_THRESHOLD, BLOCK_BYTES), (TRIM_THRESHOLD, KEPT_BYTES)]


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_what_somebody_has_set_stays(name: str) -> None:
    malloc = Malloc()
    keep(malloc, {name: "65536"})
    assert malloc.calls == []


def test_switched_off_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(kept_memory, "keep", lambda *given: calls.append(given))
    monkeypatch.setenv("RAYLAB_PATCHES_OFF", "kept_memory")
    KeptMemory().after_init_train_context()
    assert calls == []


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has mallopt")
def test_glibc_takes_both_values() -> None:
    expression = f"ctypes.CDLL(None).mallopt({MMAP_THRESHOLD}, {BLOCK_BYTES}), " + (
        f"ctypes.CDLL(None).mallopt({TRIM_THRESHOLD}, {KEPT_BYTES})"
    )
    run = subprocess.run(  # a process of its own, since it holds for all of a process
        [sys.executable, "-S", "-c", f"import ctypes; print({expression})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "1 1\n"
