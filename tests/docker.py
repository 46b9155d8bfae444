"""Whether the tests that need a Docker Engine can run here."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

from lab.runtime.compose.images import model

ANSWER_SECONDS = 120.0

OWN_IMAGES = {
    model.S3_IMAGE: model.S3_STANDIN,
    model.PROMETHEUS_IMAGE: "raylab/tests-prometheus",
    model.PROXY_IMAGE: "raylab/tests-proxy",
}
"""Variable -> the image, made by `.ci/images`, that labs of the tests run on without a registry."""

MINIO_IMAGE = "raylab/tests-minio"
"""MinIO out of its program, by `.ci/images minio PROGRAM`."""


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


@functools.cache
def choose_images() -> None:
    """Let labs run on OWN_IMAGES where the engine has all of those; what somebody chose holds."""
    argv = ("docker", "image", "inspect", *OWN_IMAGES.values())
    if subprocess.run(argv, capture_output=True, timeout=ANSWER_SECONDS, check=False).returncode == 0:
        for variable, image in OWN_IMAGES.items():
            os.environ.setdefault(variable, image)
