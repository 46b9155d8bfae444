"""A node that fails in each way: NVML, programs, files and time, behind the interface that checks have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

from raylab_health.model import Context, NotHereError

GPU = "GPU-11111111-2222-3333-4444-555555555555"
PCI = "00000000:3B:00.0"


class FakeNvml:
    """NVML with one healthy GPU, but for `answers`: function -> value, or name of its error."""

    NVMLError = pynvml.NVMLError

    def __init__(self, answers: Mapping[str, Any], init: str = "") -> None:
        self._init = init
        self._answers: dict[str, Any] = {
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
            "nvmlDeviceGetRetiredPagesPendingStatus": 0,
            "nvmlDeviceGetCurrentClocksEventReasons": 0,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=PCI.encode()),
            "nvmlDeviceGetIndex": 0,
            **answers,
        }

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        if self._init:
            raise self._error(self._init)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVML_"):
            return getattr(pynvml, name)
        if name not in self._answers:
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            value = self._answers[name]
            if isinstance(value, str) and value.startswith("NVML_ERROR"):
                raise self._error(value)
            if callable(value):
                return value()
            return value[arguments[-1]] if isinstance(value, dict) else value

        return function

    @staticmethod
    def _error(name: str) -> Exception:
        error: Exception = pynvml.NVMLError(getattr(pynvml, name))
        return error


class FakeNode(Context):
    """A node whose files are below a temporary folder."""

    def __init__(
        self,
        root: Path,
        *,
        vendor: str = "nvidia",
        nvml: Mapping[str, Any] | str = "",
        files: Mapping[str, str] | None = None,
        says: tuple[int, str] | Exception | Callable[[], tuple[int, str]] | None = None,
        facts: Mapping[str, Any] | None = None,
        seconds: Sequence[float] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`nvml` are other answers, or the error of its start; `says` is what programs answer; `seconds` is
        the time that passes between two looks at the clock. Answers may be functions."""
        module = FakeNvml({}, nvml) if isinstance(nvml, str) else FakeNvml(nvml)
        scratch = root / "scratch"
        scratch.mkdir(exist_ok=True)
        given = {"RAYLAB_GPU": vendor, "TMPDIR": str(scratch), **(environ or {})}
        super().__init__(given, facts, root, lambda: module)
        for path, text in (files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        self._says, self._seconds, self.now = says, list(seconds), 1000.0
        self.waits: list[float] = []
        """Times within which programs had to end."""

    def command(
        self, argv: Sequence[str], seconds: float, more: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        self.waits.append(seconds)
        if self._says is None:
            raise NotHereError(f"{argv[0]} is not installed")
        if isinstance(self._says, Exception):
            raise self._says
        return self._says() if callable(self._says) else self._says

    def wall(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        if self._seconds:
            self.now += self._seconds.pop(0)
        return self.now
