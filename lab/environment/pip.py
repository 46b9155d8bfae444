"""pip as a process: how it is called, which build of torch it takes, and what its failures mean.

torch on Linux: PyPI's wheel is the CUDA build, gigabytes that a machine without an NVIDIA GPU cannot use.
There its CPU build is taken from PyTorch's own index, unless pip is told of package sources of its own:
those know best. AMD GPUs: which ROCm build fits depends on the driver, so it is chosen only by
LABCTL_TORCH_INDEX=https://download.pytorch.org/whl/rocm<version>.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH_INDEX = "LABCTL_TORCH_INDEX"
"""Environment variable: the index that torch is taken from; empty for pip's own sources."""

NVIDIA_SIGNS = ("/dev/nvidiactl", "/proc/driver/nvidia")
AMD_SIGN = "/dev/kfd"

SOURCE_OPTIONS = ("index-url", "extra-index-url", "find-links", "no-index")


@dataclass(frozen=True)
class TorchSource:
    """Where torch comes from: an index URL, or empty for pip's own sources; `why` is one line."""

    index: str
    why: str
    required: bool = False
    """Whether the user asked for this index, so that nothing may stand in for it."""
    cuda: bool = False
    """Whether this is the CUDA build."""


def torch_source(
    environ: Mapping[str, str], platform: str, exists: Callable[[str], bool], pip_config: str
) -> TorchSource:
    """Decide where torch comes from. `pip_config` is what `pip config list` printed."""
    nvidia = next((sign for sign in NVIDIA_SIGNS if exists(sign)), "")
    asked = environ.get(TORCH_INDEX)
    if asked:
        return TorchSource(asked, f"the build from {asked}, as {TORCH_INDEX} says", required=True)
    if own := own_sources(pip_config):
        return TorchSource("", f"the build that pip's own sources have ({', '.join(own)} set)")
    if platform != "linux":
        return TorchSource("", "PyPI's build for this system")
    if nvidia:
        return TorchSource("", f"PyPI's CUDA build (NVIDIA GPU: {nvidia})", cuda=True)
    if asked is not None:
        return TorchSource("", f"PyPI's CUDA build ({TORCH_INDEX} is empty)", cuda=True)
    amd = f"; for the AMD GPU ({AMD_SIGN}) set {TORCH_INDEX} to a ROCm index" if exists(AMD_SIGN) else ""
    return TorchSource(CPU_INDEX, f"PyTorch's CPU build (no NVIDIA GPU here{amd})")


def own_sources(pip_config: str) -> tuple[str, ...]:
    """The options in the output of `pip config list` that name package sources."""
    keys = re.findall(r"^[\w:.-]*?\.([\w-]+)=", pip_config, re.MULTILINE)
    found = {key.replace("_", "-") for key in keys}
    return tuple(option for option in SOURCE_OPTIONS if option in found)


def install(python: str, *arguments: str) -> list[str]:
    """The command line of `pip install ARGUMENTS`, for output that is read by PipProgress.

    pip compiles what it installs: without, every process that imports ray and torch for the first time does
    (measured for cli and local on 2 cores: 77 s and 5 s for the imports; uncompiled 45 s and 11 s, again and
    again where PYTHONDONTWRITEBYTECODE is set).
    """
    quiet = (
        "--progress-bar",
        "off",
        "--disable-pip-version-check",
        "--no-input",
        "--no-warn-script-location",
    )
    return [python, "-m", "pip", "install", *quiet, *arguments]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that pip runs in: the user's, less what would make it install elsewhere."""
    unwanted = {"PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_QUIET"}
    return {
        **{k: v for k, v in environ.items() if k not in unwanted},
        "PIP_USER": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }


CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|Errno 28|disk quota exceeded",
        "the disk is full",
        "make room, then repeat: it goes on where it stopped",
    ),
    (
        r"SSL module is not available",
        "this Python was built without SSL, so pip can fetch nothing",
        "call labctl.py with another Python",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError|SSLError",
        "the package index's certificate is not trusted here",
        "behind a proxy that inspects traffic, set PIP_CERT to its certificate file",
    ),
    (
        r"\b(?:401|403|407) Client Error|Proxy Authentication Required",
        "the package index, or a proxy on the way, refused access",
        "check `pip config list` and HTTPS_PROXY",
    ),
    (
        r"NameResolutionError|name resolution|Name or service not known|nodename nor servname"
        r"|getaddrinfo failed"
        r"|NewConnectionError|Failed to establish a new connection|Connection refused|Network is unreachable"
        r"|ConnectTimeout|Read timed out|ReadTimeoutError|ProxyError|Connection reset|RemoteDisconnected"
        r"|Connection broken|IncompleteRead",
        "the package index cannot be reached",
        "check the network (HTTPS_PROXY, `pip config list`), then repeat: it goes on where it stopped",
    ),
    (
        r"Permission denied|Errno 13",
        "a file cannot be written",
        "give .venv, and pip's cache, back to the user who calls labctl",
    ),
    (
        r"No matching distribution found for (?P<what>.+)",
        "no package {what} for this Python and machine",
        "call labctl.py with another Python of 3.10 to 3.13, or check `pip config list`",
    ),
    (
        r"ResolutionImpossible|conflicting dependencies",
        "the pinned versions contradict each other",
        "restore requirements/*.txt from the repository",
    ),
    (
        r"Failed building wheel for (?P<what>\S+)|error: command .* failed",
        "a package has no wheel for this Python and machine, and could not be built",
        "call labctl.py with another Python of 3.10 to 3.13",
    ),
)
"""Pattern in pip's output, what is wrong, what to do; the first that matches counts."""


def cause(lines: list[str]) -> tuple[str, str]:
    """What made pip fail, and what to do, from the last lines of its output."""
    text = "\n".join(lines)
    for pattern, message, hint in CAUSES:
        if match := re.search(pattern, text, re.IGNORECASE):
            named = {k: (v or "").strip() for k, v in match.groupdict().items()}
            return message.format(**named), hint
    errors = [line.strip() for line in lines if line.lstrip().upper().startswith("ERROR")]
    last = (errors or [line.strip() for line in lines if line.strip()] or ["it said nothing"])[-1]
    return last[:200], "the log has the whole of it; repeat when mended"
