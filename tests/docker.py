"""Whether the tests that need a Docker Engine can run here."""

from __future__ import annotations

import functools
import shutil
import subprocess

import pytest

ANSWER_SECONDS = 20.0


@functools.cache
def why_no_docker() -> str:
    """Why no engine with Compose v2 answers, or nothing when one does."""
    if shutil.which("docker") is None:
        return "the command `docker` is not installed"
    for argv in (("docker", "info"), ("docker", "compose", "version")):
        try:
            ended = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"`{' '.join(argv)}` does not answer within {ANSWER_SECONDS:g} s"
        if ended.returncode:
            last = ended.stderr.strip().splitlines()[-1:] or ["no reason given"]
            return f"`{' '.join(argv)}` fails: {last[0]}"
    return ""


def needs_docker() -> None:
    """Skip the test where no engine answers. With --no-skips, as in CI, that is a failure."""
    why = why_no_docker()
    if why:
        pytest.skip(f"needs Docker: {why}")
