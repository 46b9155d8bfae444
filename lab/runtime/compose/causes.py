"""Causes of a failure of Docker or of a build, found in its output."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.errors import EngineError, LabError, RefusedError, SetupError
from lab.host.environment import pip

CAUSES: tuple[tuple[str, type[LabError], str, str], ...] = (
    (
        r"permission denied while trying to connect|permission denied.*\.sock",
        EngineError,
        "this user may not use the Docker Engine (permission denied on its socket)",
        "`sudo usermod -aG docker $USER`, then log in again; or use --runtime local",
    ),
    (
        r"Cannot connect to the Docker daemon|Is the docker daemon running"
        r"|failed to connect to the docker API",
        EngineError,
        "the Docker Engine is not running",
        "start it: `sudo systemctl start docker`, or Docker Desktop; or use --runtime local",
    ),
    (
        r"'buildx' is not a docker command|unknown command: docker buildx"
        r"|unknown flag: --(?:secret|progress)",
        EngineError,
        "Docker has no buildx here, which builds the images",
        "install the package docker-buildx-plugin (Debian and Ubuntu: docker-buildx)",
    ),
    (
        r'container name "/(?P<what>[^"]+)" is already in use',
        RefusedError,
        "there is a container called {what} already",
        "`docker ps -a` shows it: end that lab, or leave --plain-names out",
    ),
    (
        r"No space left on device|disk quota exceeded",
        SetupError,
        "the disk is full",
        "`docker system df` shows what takes space; the build needs about 8 GB with PyTorch's CPU build",
    ),
    (
        r"toomanyrequests|429 Too Many Requests|pull rate limit",
        SetupError,
        "the registry has had too many requests from here",
        "wait an hour, or `docker login`, then try again",
    ),
    (
        r"x509: |tls: failed to verify certificate",
        SetupError,
        "the Docker Engine does not trust the registry's certificate",
        "put your CA's certificate into the machine's trust store (Debian: /usr/local/share/ca-certificates"
        " and `sudo update-ca-certificates`) and `sudo systemctl restart docker`",
    ),
    (
        r"unauthorized|denied: requested access|pull access denied|403 Forbidden.*registry|no basic auth",
        SetupError,
        "the registry refuses this image",
        "`docker login`, or another image by its variable (see `labctl images list`)",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|\S+@sha256:\w+: not found",
        SetupError,
        "the registry does not have this image",
        "choose another by its variable (see `labctl images list`), or `labctl images load FILE`",
    ),
    (
        r"dial tcp.*(?:no such host|timeout|refused|unreachable|server misbehaving)"
        r"|TLS handshake timeout|Client\.Timeout exceeded|proxyconnect"
        r"|failed to resolve source metadata|registry\S*.*(?:EOF|connection reset)",
        SetupError,
        "no image registry can be reached from here",
        "on a machine with internet `labctl images save FILE`, here `labctl images load FILE`",
    ),
    (
        r"THESE PACKAGES DO NOT MATCH THE HASHES",
        SetupError,
        "a package is not the one that requirements/*.txt pins",
        "something on the way changes packages: ask who runs the package index or the proxy",
    ),
    (
        r"No matching distribution found for (?P<what>torch\S*)",
        SetupError,
        "no package {what} in the index that PyTorch comes from",
        "set LABCTL_TORCH_INDEX to an index that has it, or PIP_FIND_LINKS to a folder with its wheel",
    ),
    (
        r"No matching distribution found for (?P<what>\S+)",
        SetupError,
        "no package {what} for the image's Python",
        "see `pip config list`: the package index must have every package of requirements/image.txt",
    ),
    (
        r"Failed to fetch|Temporary failure resolving|Unable to connect to|Could not resolve",
        SetupError,
        "Debian's packages cannot be fetched",
        "check that `sudo apt-get update` works on this machine, then try again",
    ),
    (
        r"Unable to locate package (?P<what>\S+)",
        SetupError,
        "the package sources of the base image have no {what}",
        "see what LAB_BASE_IMAGE names: it must be Debian 12 or newer",
    ),
    (
        r"Release file.*(?:expired|not valid yet)|signatures? (?:couldn't|could not) be verified|NO_PUBKEY",
        SetupError,
        "apt does not trust the package sources of this machine",
        "check that `sudo apt-get update` works on this machine (clock, keys), then try again",
    ),
    (
        r"invalid tar header|unexpected EOF|archive/tar",
        SetupError,
        "the image archive is damaged",
        "copy it again, then try again",
    ),
)
"""Pattern in the output, error, what is wrong, what to do; the first that matches counts, then pip's own."""

RESTART = "restart it: `sudo systemctl restart docker`, or Docker Desktop"

NOISE = re.compile(r"^#\d+ (?:[\d.]+ )?|^-+$|^ *>>> |^\s*\d+ \| ")


def failed(what: str, lines: Sequence[str]) -> LabError:
    """The error to raise when doing `what` failed with these last lines of output."""
    known = known_cause("\n".join(lines), f"{what}: ")
    if known is not None:
        return known
    cause = pip.cause([NOISE.sub("", line) for line in lines])
    return SetupError(f"{what}: {cause.message}", cause.hint)


def no_answer(text: str) -> EngineError | RefusedError:
    """The error for an engine that does not do what it is asked for, from what it says."""
    words = " ".join(text.split()) or "no reason given"
    known = known_cause(words)
    if isinstance(known, EngineError | RefusedError):
        return known
    return EngineError(f"docker failed: {words}", "`labctl doctor` looks at the engine")


def late_answer(seconds: float) -> EngineError:
    """The error for an engine that is there and does not answer within so many seconds."""
    late = EngineError(f"the Docker Engine does not answer within {seconds:g} s", RESTART)
    late.late = True
    return late


def known_cause(text: str, prefix: str = "") -> LabError | None:
    """The error for the first of CAUSES that this output shows."""
    for pattern, error, message, hint in CAUSES:
        if match := re.search(pattern, text, re.IGNORECASE):
            named = {k: (v or "").strip() for k, v in match.groupdict().items()}
            return error(f"{prefix}{message.format(**named)}", hint)
    return None


def missing_command(name: str) -> EngineError:
    """The error when the command that stands for `docker` is not there."""
    return EngineError(
        f"the command `{name}` is not installed",
        "install Docker (docs.docker.com/engine/install), or use --runtime local",
    )


def last_words(lines: Sequence[str]) -> list[str]:
    """The last eight lines of an output that say something, without what the build puts before them."""
    said = [NOISE.sub("", line).rstrip() for line in lines]
    return [line for line in said if line][-8:]
