"""Installs packages into /opt/venv while an image is built; runs on the base image's Python alone.

    install.py                    torch $TORCH_VERSION from $TORCH_INDEX, or from a wheel given to the build;
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

    PyTorch's index has one for each build. If torch is a wheel given to the build, only a wheel of
    torchvision beside it is known to fit.
    """
    wanted = f"torchvision=={version}"
    if any(wheels.glob("torch-*.whl")):
        beside = any(wheels.glob("torchvision-*.whl"))
        return install("--no-deps", "--no-index", wanted, wheels=wheels) if beside else []
    return install("--no-deps", "--index-url", index, wanted, wheels=None) if index else []


def rest(version: str, index: str, wheels: Path) -> list[str]:
    """Command line that installs what else this build of torch needs: the CUDA or ROCm libraries."""
    extra = ["--extra-index-url", index] if index else []
    return install(*extra, f"torch=={version}", wheels=wheels)


def main(requirements: str = "") -> int:
    """Install torch or the locked packages, and return pip's exit code. A missing torchvision is no error."""
    version, index = os.environ.get("TORCH_VERSION", ""), os.environ.get("TORCH_INDEX", "")
    vision: list[str] = []
    if not requirements:
        vision = torchvision(os.environ["TORCHVISION_VERSION"], index, WHEELS)
        commands = [torch(version, index, WHEELS)]
    else:
        commands = [install("--no-deps", "--require-hashes", "-r", requirements, wheels=WHEELS)]
        commands += [rest(version, index, WHEELS)] if version else []
        commands += [[*PIP, "check"]]
    env = environment(os.environ, SECRETS)
    for argv in commands:
        code = subprocess.run(argv, env=env, check=False).returncode
        if code:
            return code
    if vision and subprocess.run(vision, env=env, check=False).returncode:
        sys.stderr.write("torchvision is not in this image: pip could not install it (see above)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
