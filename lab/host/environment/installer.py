"""Installs packages into `.venv`: with uv, which takes seconds where pip takes minutes, and else with pip.

pip does it where uv cannot be had, cannot honour pip's configuration, or fails for a reason of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.host import environment
from lab.host.environment import pip, uv
from lab.host.environment.progress import InstallProgress
from lab.host.environment.venv import Venv


class Installer:
    """uv, or pip in its place."""

    def __init__(self, venv: Venv) -> None:
        self._venv = venv
        self._requirements = environment.requirements_of("installer", venv.root)
        self._handover = uv.Handover()
        self._uv = False
        self.pip_config = ""
        """The output of `pip config list`."""

    def install_uv(self, python: str) -> bool:
        """Let the pip of `python` install uv, and pip, as pinned; returns whether it could."""
        argv = pip.install_uv(python, self._venv.python, self._requirements)
        return self._venv.run(argv, "fetching uv")[0] == 0

    def choose(self) -> None:
        """Read pip's configuration, and decide whether uv can do its work."""
        _, config = self._venv.run([self._venv.python, "-m", "pip", "config", "list"], secret=True)
        self.pip_config = "\n".join(config)
        self._handover = uv.from_pip(self.pip_config, self._venv.machine.environ)
        say = self._venv.progress.line
        if refused := self._handover.refused:
            say(f"installing with pip instead of uv, which has no equivalent of pip's option {refused}")
            return
        with open(self._requirements, encoding="utf-8") as file:
            pin = next((line.strip().replace("==", "-") for line in file if line.startswith("uv==")), "uv")
        self._uv = self._venv.installed(pin) > 0 or self.install_uv(self._venv.python)
        if not self._uv:
            say("uv is not available here: installing with pip, which takes minutes longer")

    def fetch(
        self, title: str, wanted: tuple[str, ...], index: str = "", limits: Mapping[str, str] | None = None
    ) -> tuple[int, list[str]]:
        """Install `wanted`, from `index` where one is given; the exit code and the last lines of output.

        `limits` are values for RETRIES and TIMEOUT. pip takes over where uv fails for a reason that need not
        be one for pip too.
        """
        venv, environ = self._venv, self._venv.machine.environ
        if self._uv:
            env = uv.environment(environ, self._handover)
            env |= {f"UV_HTTP_{name}": value for name, value in (limits or {}).items()}
            env |= {"UV_DEFAULT_INDEX": index} if index else {}
            argv = uv.install(venv.python, self._handover, *wanted)
            code, lines = venv.run(argv, InstallProgress(title, venv.installed), env)
            cause = pip.cause(lines)
            if code == 0 or cause.certain:
                return code, lines
            why = f"signal {-code} ended it" if code < 0 else cause.message
            venv.progress.line(f"uv could not install {title} ({why}); trying pip")
            venv.forget_half_installed()
        env = pip.environment(environ)
        env |= {f"PIP_{name}": value for name, value in (limits or {}).items()}
        env |= {"PIP_INDEX_URL": index} if index else {}
        argv = pip.install(venv.python, *wanted)
        code, lines = venv.run(argv, InstallProgress(title, venv.installed), env)
        self._uv = self._uv and code != 0
        return code, lines
