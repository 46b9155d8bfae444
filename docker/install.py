"""Installs packages into /opt/venv while an image is built; runs on the base image's Python alone.

    install.py                    torch $TORCH_VERSION from $TORCH_INDEX, or from a wheel given to the build;
                                  with $TORCH_FALLBACK, if the index has none, from pip's own sources;
                                  torchvision $TORCHVISION_VERSION from the same place, if it is there:
                                  a lab works without it, so the build continues
    install.py REQUIREMENTS.txt   every other package, each with its hash; then what else this torch needs

The build can also provide wheels at /build/wheels, a CA bundle as the secret `ca`, and a pip.conf as the
secret `pip-conf`. None of these stays in the image.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PIP = ["/opt/venv/bin/python", "-m", "pip"]
SECRETS = Path("/run/secrets")
WHEELS = Path("/build/wheels")
SITE_PACKAGES = "lib/python3*/site-packages"
VENV = Path("/opt/venv")


def environment(environ: Mapping[str, str], secrets: Path) -> dict[str, str]:
    """Environment for pip, with the CA bundle and the configuration of the build, if any."""
    env = {key: value for key, value in environ.items() if not (key == "PIP_INDEX_URL" and not value)}
    if (secrets / "ca").is_file():
        env |= {name: str(secrets / "ca") for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")}
    if (secrets / "pip-conf").is_file():
        env["PIP_CONFIG_FILE"] = str(secrets / "pip-conf")
    return env


def install(*arguments: str, wheels: Path | None) -> list[str]:
    """Command line of `pip install` that compiles nothing: slim.py compiles what it leaves."""
    local = ["--find-links", str(wheels)] if wheels and any(wheels.glob("*.whl")) else []
    return [
        *PIP,
        "install",
        "--no-compile",
        "--progress-bar",
        "off",
        "--root-user-action",
        "ignore",
        *local,
        *arguments,
    ]


def torch_source(index: str, wheels: Path) -> list[str]:
    """Options for the source of torch: a wheel given to the build, else the index, else none (pip's own)."""
    if any(wheels.glob("torch-*.whl")):
        return ["--no-index"]
    return ["--index-url", index] if index else []


def torch(version: str, index: str, wheels: Path) -> list[str]:
    """Command line that installs only torch."""
    return install("--no-deps", *torch_source(index, wheels), f"torch=={version}", wheels=wheels)


def torchvision(version: str, index: str, wheels: Path) -> list[str]:
    """Command line that installs only torchvision, of the same build as torch; empty if there is none.

    An index has one for each build. If torch is a wheel given to the build, only a wheel of torchvision
    beside it is known to fit.
    """
    wanted = f"torchvision=={version}"
    if any(wheels.glob("torch-*.whl")):
        beside = any(wheels.glob("torchvision-*.whl"))
        return install("--no-deps", "--no-index", wanted, wheels=wheels) if beside else []
    return install("--no-deps", *torch_source(index, wheels), wanted, wheels=None)


def indexes(index: str, wheels: Path, fallback: bool) -> list[str]:
    """Sources of torch in the order of trial: the index, then pip's own (empty) where it may stand in."""
    return [index, ""] if index and fallback and not any(wheels.glob("torch-*.whl")) else [index]


def labelled(venv: Path) -> bool:
    """Tell whether the torch that is installed is of an index of PyTorch's: only those label their builds."""
    return any(venv.glob(f"{SITE_PACKAGES}/torch-*+*.dist-info"))


def rest(version: str, index: str, wheels: Path) -> list[str]:
    """Command line that installs what else this build of torch needs: the CUDA or ROCm libraries."""
    extra = ["--extra-index-url", index] if index else []
    return install(*extra, f"torch=={version}", wheels=wheels)


def run(argv: list[str], env: Mapping[str, str]) -> int:
    """Run pip; returns its exit code."""
    return subprocess.run(argv, env=env, check=False).returncode


def note(text: str) -> None:
    """Say what differs from the usual image; `labctl images build` shows such a line."""
    sys.stderr.write(f"note: {text}\n")


def build_of_torch(env: Mapping[str, str]) -> int:
    """Install torch and, if it can be had, torchvision; returns the exit code of pip's last try of torch."""
    fallback = bool(os.environ.get("TORCH_FALLBACK"))
    code = 1
    for index in indexes(os.environ.get("TORCH_INDEX", ""), WHEELS, fallback):
        impatient = {"PIP_RETRIES": "1", "PIP_TIMEOUT": "15"} if index and fallback else {}
        if not index and fallback:
            note("PyTorch's index cannot be used: torch is the build that pip's own sources have")
        code = run(torch(os.environ["TORCH_VERSION"], index, WHEELS), {**env, **impatient})
        if code == 0:
            vision = torchvision(os.environ["TORCHVISION_VERSION"], index, WHEELS)
            if vision and run(vision, env):
                note("torchvision is not in this image: pip could not install it")
            break
    return code


def main(requirements: str = "") -> int:
    """Install torch or the locked packages, and return pip's exit code. A missing torchvision is no error."""
    env = environment(os.environ, SECRETS)
    if not requirements:
        return build_of_torch(env)
    version, index = os.environ.get("TORCH_VERSION", ""), os.environ.get("TORCH_INDEX", "")
    commands = [install("--no-deps", "--require-hashes", "-r", requirements, wheels=WHEELS)]
    commands += [rest(version, index if labelled(VENV) else "", WHEELS)] if version else []
    commands += [[*PIP, "check"]]
    return next((code for code in (run(argv, env) for argv in commands) if code), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
