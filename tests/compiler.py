"""A C compiler, which some tests need."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

GCC = os.environ.get("CC") or "gcc"

needs_gcc = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which(GCC),
    reason="needs GCC: this is not Linux, or there is no command `gcc` and CC is not set",
)
"""Skips a test that compiles where it cannot. With --no-skips, as in CI, that is a failure."""
