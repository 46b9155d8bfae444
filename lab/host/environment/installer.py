"""Installs packages into `.venv`: with uv, which takes seconds where pip takes minutes, and else with pip.

pip does it where uv cannot be had, cannot honour pip's configuration, or fails for a reason of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from lab.host import environment
from lab.host.environment import pip, uv
from lab.host.environment.progress import InstallProgress, Progress


class Follow(Protocol):
    """Runs a process to its end, showing how far it is."""

    def __call__(
        self,
        argv: list[str],
        shown: InstallProgress | str = "",
        env: Mapping[str, str] | None = None,
        *,
        secret: bool = False,
    ) -> tuple[int, list[str]]:
        """The exit code and the last lines of output, which the log keeps unless `secret`."""


class Installer:
    """uv, or pip in its place."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        progress: Progress,
        run: Follow,
        installed: Callable[[str], int],
        repair: Callable[[], None],
    ) -> None:
        """`installed` counts packages by a pattern for NAME-VERSION; `repair` forgets those cut off."""
        self._python = environment.python_of(root)
        self._requirements = environment.requirements_of("installer", root)
        self._environ = environ
        self._progress = progress
        self._run = run
        self._installed = installed
        self._repair = repair
        self._handover = uv.Handover()
        self._uv = False
        self.pip_config = ""
        """What `pip config list` printed."""

    def install_uv(self, python: str) -> bool:
        """Let the pip of `python` install uv, and pip, as pinned; whether it could."""
        return self._run(pip.install_uv(python, self._python, self._requirements), "fetching uv")[0] == 0

    def choose(self) -> None:
        """Find out what pip is told, and whether uv can do its work."""
        _, config = self._run([self._python, "-m", "pip", "config", "list"], secret=True)
        self.pip_config = "\n".join(config)
        self._handover = uv.from_pip(self.pip_config, self._environ)
        if refused := self._handover.refused:
            self._progress.line(f"pip installs, not uv, which cannot honour pip's option {refused}")
            return
        with open(self._requirements, encoding="utf-8") as file:
            pin = next((line.strip().replace("==", "-") for line in file if line.startswith("uv==")), "uv")
        self._uv = self._installed(pin) > 0 or self.install_uv(self._python)
        if not self._uv:
            self._progress.line("uv cannot be had here; pip installs, which takes minutes longer")

    def fetch(
        self, title: str, wanted: tuple[str, ...], index: str = "", patience: Mapping[str, str] | None = None
    ) -> tuple[int, list[str]]:
        """Install `wanted`, from `index` where one is given; the exit code and the last lines of output.

        pip takes over where uv fails for a reason that need not be one for pip too.
        """
        limits = patience or {}
        source = {"INDEX_URL": index} if index else {}

        def shown() -> InstallProgress:
            return InstallProgress(title, lambda: self._installed("*"))

        if self._uv:
            env = uv.environment(self._environ, self._handover)
            env |= {f"UV_HTTP_{name}": value for name, value in limits.items()}
            env |= {"UV_DEFAULT_INDEX": index} if index else {}
            argv = uv.install(self._python, self._handover, *wanted)
            code, lines = self._run(argv, shown(), env)
            cause = pip.cause(lines)
            if code == 0 or cause.certain:
                return code, lines
            why = f"signal {-code} ended it" if code < 0 else cause.message
            self._progress.line(f"uv could not install {title} ({why}); pip tries")
            self._repair()
        env = pip.environment(self._environ) | {
            f"PIP_{name}": value for name, value in {**limits, **source}.items()
        }
        code, lines = self._run(pip.install(self._python, *wanted), shown(), env)
        self._uv = self._uv and code != 0
        return code, lines
