"""pip's configuration; the choice of torch's build; the causes of failures of uv and pip.

torch on Linux: PyPI's wheel is the CUDA build, gigabytes that a machine without an NVIDIA GPU cannot use.
There its CPU build is taken from PyTorch's own index, unless pip is told of package sources of its own:
those know best. AMD GPUs: which ROCm build fits depends on the driver, so it is chosen only by
LABCTL_TORCH_INDEX=https://download.pytorch.org/whl/rocm<version>.
"""

from __future__ import annotations

import ast
import contextlib
import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH_INDEX = "LABCTL_TORCH_INDEX"
"""Environment variable: the index that torch is taken from; empty for pip's own sources."""

NVIDIA_SIGNS = ("/dev/nvidiactl", "/proc/driver/nvidia")
AMD_SIGN = "/dev/kfd"

SOURCE_OPTIONS = ("index-url", "extra-index-url", "no-index")


@dataclass(frozen=True)
class TorchSource:
    """The source of torch: an index URL, or empty for pip's own sources; `why` is one line."""

    index: str
    why: str
    required: bool = False
    """True if the user asked for this index, so that nothing may stand in for it."""
    cuda: bool = False
    """True for the CUDA build."""


def torch_source(
    environ: Mapping[str, str], platform: str, exists: Callable[[str], bool], pip_config: str
) -> TorchSource:
    """Choose the source of torch. `pip_config` is the output of `pip config list`."""
    nvidia = next((sign for sign in NVIDIA_SIGNS if exists(sign)), "")
    asked = environ.get(TORCH_INDEX)
    if asked:
        return TorchSource(asked, f"the build from {asked}, as {TORCH_INDEX} says", required=True)
    if own := [option for option, value in options(pip_config).items() if _is_source(option, value)]:
        return TorchSource("", f"the build that pip's own sources have ({', '.join(own)} set)")
    if platform != "linux":
        return TorchSource("", "PyPI's build for this system")
    if nvidia:
        return TorchSource("", f"PyPI's CUDA build (NVIDIA GPU: {nvidia})", cuda=True)
    if asked is not None:
        return TorchSource("", f"PyPI's CUDA build ({TORCH_INDEX} is empty)", cuda=True)
    amd = f"; for the AMD GPU ({AMD_SIGN}) set {TORCH_INDEX} to a ROCm index" if exists(AMD_SIGN) else ""
    return TorchSource(CPU_INDEX, f"PyTorch's CPU build (no NVIDIA GPU here{amd})")


def _is_source(option: str, value: str) -> bool:
    """True for an option of pip that torch may come by; a folder of wheels without torch is none."""
    if option == "find-links":
        return any(
            not os.path.isdir(folder) or glob.glob(os.path.join(glob.escape(folder), "torch-*.whl"))
            for folder in map(os.path.expanduser, value.split())
        )
    return option in SOURCE_OPTIONS


def options(pip_config: str) -> dict[str, str]:
    """The output of `pip config list` as `pip install` takes it: option -> value."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for section, key, value in re.findall(r"^([\w:-]+)\.([\w.-]+)=(['\"].*['\"])$", pip_config, re.MULTILINE):
        with contextlib.suppress(SyntaxError, ValueError):  # a line that is no value
            text = str(ast.literal_eval(value)).strip()
            if section in sections and text:
                sections[section][key.lower().replace("_", "-")] = text
    return {**sections["global"], **sections["install"], **sections[":env:"]}


def install_uv(python: str, target: str, requirements: str) -> list[str]:
    """The command line by which the pip of `python` installs uv, and pip, for the interpreter `target`."""
    into = () if python == target else ("--python", target)
    quiet = ("--progress-bar", "off", "--disable-pip-version-check", "--no-input")
    few = ("--no-warn-script-location", "--only-binary", ":all:", "--no-compile", "--retries", "1")
    return [python, "-m", "pip", *into, "install", *quiet, *few, "-r", requirements]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that pip runs in: the user's, less what would make it install elsewhere."""
    unwanted = {"PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
    unwanted |= {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_QUIET"}
    return {
        **{k: v for k, v in environ.items() if k not in unwanted},
        "PIP_USER": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }


@dataclass(frozen=True)
class InstallFailure:
    """The cause of a failed installation."""

    message: str
    hint: str


UNTRUSTED = InstallFailure(
    "the package index's certificate is not trusted here",
    "behind a proxy that inspects traffic, set PIP_CERT to its certificate file; where this system "
    "trusts the proxy, UV_SYSTEM_CERTS=1 does",
)

CAUSES: tuple[tuple[str, InstallFailure], ...] = (
    (
        r"No space left on device|Errno 28|os error 28\b|disk quota exceeded",
        InstallFailure(
            "the disk is full",
            "free some space, then try again: it continues where it stopped",
        ),
    ),
    (
        r"SSL module is not available",
        InstallFailure(
            "this Python was built without SSL, so pip can fetch nothing",
            "run labctl.py with another Python",
        ),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError|SSLError|invalid peer certificate",
        UNTRUSTED,
    ),
    (
        r"\b(?:401|403|407) Client Error|Proxy Authentication Required|\(401 Unauthorized\)|403 Forbidden",
        InstallFailure(
            "the package index, or a proxy on the way, refused access",
            "check `pip config list` and HTTPS_PROXY",
        ),
    ),
    (
        r"NameResolutionError|name resolution|Name or service not known|nodename nor servname"
        r"|getaddrinfo failed"
        r"|NewConnectionError|Failed to establish a new connection|Connection refused|Network is unreachable"
        r"|ConnectTimeout|Read timed out|ReadTimeoutError|ProxyError|Connection reset|RemoteDisconnected"
        r"|Connection broken|IncompleteRead"
        r"|dns error|tcp connect error|operation timed out|network timeout|HTTP status server error"
        r"|error sending request for url",
        InstallFailure(
            "the package index cannot be reached",
            "check the network (HTTPS_PROXY, `pip config list`), then try again: it continues from there",
        ),
    ),
    (
        r"Permission denied|Errno 13",
        InstallFailure(
            "a file cannot be written",
            "make the user who runs labctl the owner of .venv and of the caches of uv and pip",
        ),
    ),
    (
        r"Because (\S+) was not found in the p",
        InstallFailure("pip's package index has no {what}", "check `pip config list`"),
    ),
    (
        r"No matching distribution found for (.+)|no version of (\S+)|Because (\S+) has no wheels with",
        InstallFailure(
            "no package {what} for this Python and machine",
            "run labctl.py with another Python of 3.10 to 3.13, or check `pip config list`",
        ),
    ),
    (
        r"ResolutionImpossible|conflicting dependencies|requirements are unsatisfiable",
        InstallFailure(
            "the pinned versions contradict each other",
            "restore requirements/*.txt from the repository",
        ),
    ),
    (
        r"Failed building wheel for|error: command .* failed|Failed to build `",
        InstallFailure(
            "a package has no wheel for this Python and machine, and could not be built",
            "run labctl.py with another Python of 3.10 to 3.13",
        ),
    ),
)
"""Pattern in the output of uv or pip, and what it means; the first that matches counts."""


def cause(lines: list[str]) -> InstallFailure:
    """Find the cause in the last lines that uv or pip printed."""
    text = "\n".join(lines)
    for pattern, known in CAUSES:
        if match := re.search(pattern, text, re.IGNORECASE):
            named = next((v.strip() for v in match.groups() if v), "")
            return replace(known, message=known.message.format(what=named))
    errors = [line.strip() for line in lines if line.lstrip().upper().startswith("ERROR")]
    last = (errors or [line.strip() for line in lines if line.strip()] or ["it printed nothing"])[-1]
    return InstallFailure(last[:200], "see the log for the whole output; mend the cause, then try again")
