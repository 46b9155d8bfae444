"""Command lines and environment of uv, with the configuration of pip.

uv reads neither pip.conf nor PIP_*: sources, certificates and proxies that pip is told of become variables of
uv's environment, where nobody else sees a password in a URL. What uv cannot honour leaves the work to pip.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.host.environment import pip

KEPT = ("UV_CACHE_DIR", "UV_CONCURRENT_", "UV_HTTP_", "UV_LINK_MODE", "UV_NO_CACHE", "UV_SYSTEM_CERTS")
"""The user's own UV_* that hold, by their beginnings; others could install elsewhere, or something else."""

ONE: Mapping[str, tuple[str, ...]] = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "pypi-url": ("UV_DEFAULT_INDEX",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "retries": ("UV_HTTP_RETRIES",),
}
"""pip's option -> the variables that say the same to uv."""

SEVERAL: Mapping[str, tuple[str, str]] = {
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
}
"""pip's option with values between white space -> uv's variable, and what separates its values."""

WITHOUT_EFFECT = frozenset(
    (
        *("break-system-packages", "cache-dir", "compile", "config-file", "disable-pip-version-check"),
        *("exists-action", "isolated", "log", "no-cache-dir", "no-color", "no-compile", "no-input"),
        *("no-python-version-warning", "no-warn-script-location", "pre", "prefer-binary", "prefix"),
        *("progress-bar", "quiet", "require-virtualenv", "root", "root-user-action", "target", "upgrade"),
        *("upgrade-strategy", "use-deprecated", "use-feature", "user", "verbose"),
    )
)
"""Options of pip that change nothing here: each version is pinned, and it goes into `.venv`."""

TRUE = ("1", "on", "t", "true", "y", "yes")


@dataclass(frozen=True)
class Handover:
    """The configuration of pip in uv's words."""

    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    refused: str = ""
    """The option of pip that uv cannot honour, if there is one: then pip has to do the work."""


def from_pip(pip_config: str, environ: Mapping[str, str]) -> Handover:
    """Translate the output of `pip config list`; a certificate may also stand in `environ`, as for pip."""
    variables: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    if bundle := environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE"):
        variables["SSL_CERT_FILE"] = bundle
    for option, value in pip.options(pip_config).items():
        if option in ONE:
            variables |= dict.fromkeys(ONE[option], value.split(".")[0] if "timeout" in option else value)
        elif option in SEVERAL:
            variable, separator = SEVERAL[option]
            values = [os.path.expanduser(v) if v.startswith("~") else v for v in value.split()]
            if any(separator in v for v in values):
                return Handover(refused=option)
            variables[variable] = separator.join(values)
        elif option == "no-index":
            arguments = ("--no-index",) if value.lower() in TRUE else ()
        elif option not in WITHOUT_EFFECT:
            return Handover(refused=option)
    return Handover(variables, arguments)


def environment(environ: Mapping[str, str], handover: Handover) -> dict[str, str]:
    """The environment that uv runs in: pip's, without the UV_* that are not KEPT, and with the handover."""
    own = pip.environment(environ).items()
    kept = {k: v for k, v in own if not k.startswith("UV_") or k.startswith(KEPT)}
    return {**kept, **handover.variables}


def install(python: str, handover: Handover, *arguments: str) -> list[str]:
    """The command line of `uv pip install ARGUMENTS`, for output that is read by InstallProgress.

    As pip does, uv takes the best version of all indexes, not that of the first index that has the package.
    """
    quiet = ("--no-config", "--no-progress", "--color", "never", "--index-strategy", "unsafe-best-match")
    own = (*quiet, *handover.arguments)
    return [python, "-m", "uv", "pip", "install", "--python", python, *own, *arguments]
