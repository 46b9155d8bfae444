"""Installs packages into `.venv` with uv, which pip installs there, with the configuration of pip.

uv reads neither pip.conf nor PIP_*: sources, certificates and proxies that pip is told of become variables of
uv's environment, where nobody else sees a password in a URL.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.errors import SetupError
from lab.host import environment
from lab.host.environment import pip
from lab.host.environment.progress import InstallProgress
from lab.host.environment.venv import Venv

KEPT = (
    *("UV_CACHE_DIR", "UV_CONCURRENT_", "UV_HTTP_", "UV_KEYRING_PROVIDER", "UV_LINK_MODE", "UV_NO_CACHE"),
    "UV_SYSTEM_CERTS",
)
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

TRUST = {"UV_SYSTEM_CERTS", "SSL_CERT_FILE"}
"""Variables by which the user says whose certificates uv trusts."""

TRUE = ("1", "on", "t", "true", "y", "yes")


@dataclass(frozen=True)
class Handover:
    """The configuration of pip in uv's words."""

    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


def from_pip(pip_config: str, environ: Mapping[str, str]) -> Handover:
    """Translate the output of `pip config list`; a certificate may also stand in `environ`, as for pip.

    Raises SetupError for a value that uv cannot be told.
    """
    variables: dict[str, str] = {}
    if bundle := environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE"):
        variables["SSL_CERT_FILE"] = bundle
    options = pip.options(pip_config)
    for option, value in options.items():
        if option in ONE:
            variables |= dict.fromkeys(ONE[option], value.split(".")[0] if "timeout" in option else value)
        elif option in SEVERAL:
            variable, separator = SEVERAL[option]
            values = [os.path.expanduser(v) if v.startswith("~") else v for v in value.split()]
            if any(separator in v for v in values):
                raise SetupError(
                    f"pip's {option} has a value with a comma in it, where uv would cut it in two",
                    "name a folder without a comma; in a URL write %2C",
                )
            variables[variable] = separator.join(values)
    if options.get("keyring-provider") == "subprocess":  # of pip's values the one that uv knows
        variables["UV_KEYRING_PROVIDER"] = "subprocess"
    no_index = options.get("no-index", "").lower() in TRUE
    return Handover(variables, ("--no-index",) if no_index else ())


def uv_environment(environ: Mapping[str, str], handover: Handover) -> dict[str, str]:
    """The environment that uv runs in: pip's, without the UV_* that are not KEPT, and with the handover."""
    own = pip.environment(environ).items()
    kept = {k: v for k, v in own if not k.startswith("UV_") or k.startswith(KEPT)}
    return {**kept, **handover.variables}


class Installer:
    """uv, in one environment."""

    def __init__(self, venv: Venv) -> None:
        self._venv = venv
        self._requirements = environment.requirements_of("installer", venv.root)
        self._handover = Handover()
        self.pip_config = ""
        """The output of `pip config list`."""

    def install_uv(self, python: str) -> tuple[int, list[str]]:
        """Let the pip of `python` install uv, and pip, as pinned; the exit code and the last lines."""
        argv = pip.install_uv(python, self._venv.python, self._requirements)
        return self._venv.run(argv, "fetching uv")

    def prepare(self) -> None:
        """Read pip's configuration, and install uv unless it is there.

        Raises SetupError.
        """
        _, config = self._venv.run([self._venv.python, "-m", "pip", "config", "list"], secret=True)
        self.pip_config = "\n".join(config)
        self._handover = from_pip(self.pip_config, self._venv.machine.environ)
        with open(self._requirements, encoding="utf-8") as file:
            pin = next((line.strip().replace("==", "-") for line in file if line.startswith("uv==")), "uv")
        if self._venv.installed(pin):
            return
        code, lines = self.install_uv(self._venv.python)
        if code != 0:
            raise self._venv.failed("installing uv failed", lines)

    def fetch(
        self, title: str, wanted: tuple[str, ...], index: str = "", limits: Mapping[str, str] | None = None
    ) -> tuple[int, list[str]]:
        """Install `wanted`, from `index` where one is given; the exit code and the last lines of output.

        `limits` are values for RETRIES and TIMEOUT. As pip does, uv takes the best version of all indexes,
        not that of the first index that has the package. It compiles nothing: that takes longer than the
        installation (17,000 files, of which a lab imports 4,000). setup compiles what is imported.
        """
        venv = self._venv
        env = uv_environment(venv.machine.environ, self._handover)
        env |= {f"UV_HTTP_{name}": value for name, value in (limits or {}).items()}
        env |= {"UV_DEFAULT_INDEX": index} if index else {}
        argv = [venv.python, "-m", "uv", "pip", "install", "--python", venv.python, "--no-config"]
        argv += ["--no-progress", "--color", "never", "--index-strategy", "unsafe-best-match"]
        argv += [*self._handover.arguments, *wanted]
        code, lines = venv.run(argv, InstallProgress(title, venv.installed), env)
        if code > 0 and pip.cause(lines) == pip.UNTRUSTED and not TRUST & env.keys():
            env = {**env, "UV_SYSTEM_CERTS": "1"}  # as pip does by itself
            code, lines = venv.run(argv, InstallProgress(title, venv.installed), env)
        if code < 0:
            lines = [*lines, f"error: signal {-code} ended uv"]
        return code, lines
