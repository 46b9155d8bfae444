"""A node that fails in each way: NVML, programs, files and time, behind what facts are read of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

from raylab_health.node import Node, NoFactsError

GPU = "GPU-11111111-2222-3333-4444-555555555555"
PCI = "00000000:3B:00.0"


class FakeNvml:
    """NVML with one healthy GPU, but for `answers`: function -> value, or name of its error."""

    NVMLError = pynvml.NVMLError

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers: dict[str, Any] = {
            "nvmlInit": None,
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVML_"):
            return getattr(pynvml, name)
        if name not in self._answers:
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            value = self._answers[name]
            if isinstance(value, str) and value.startswith("NVML_ERROR"):
                raise pynvml.NVMLError(getattr(pynvml, value))
            if callable(value):
                return value()
            return value[arguments[-1]] if isinstance(value, dict) else value

        return function


class FakeNode(Node):
    """A node whose files are below a temporary folder, on a clock of its own."""

    def __init__(
        self,
        root: Path,
        *,
        vendor: str = "nvidia",
        nvml: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        says: tuple[int, str] | Callable[[], tuple[int, str]] | None = None,
        heard: Mapping[str, Any] | None = None,
        seconds: Sequence[float] = (),
        **environ: str,
    ) -> None:
        """`nvml` are other answers; `says` is what programs answer; `seconds` is the time that passes between
        two looks at the clock. Answers may be functions."""
        (root / "scratch").mkdir(exist_ok=True)
        super().__init__(
            {"RAYLAB_GPU": vendor, "TMPDIR": str(root / "scratch"), **environ},
            root,
            load_nvml=lambda: FakeNvml(nvml or {}),
            monotonic=self._look,
            sleep=self._sleep,
            heard=heard or {},
        )
        for path, text in (files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        self._says, self._seconds, self.now = says, list(seconds), 1000.0

    def run(self, argv: Sequence[str], **variables: str) -> tuple[int, str]:
        if self._says is None:
            raise NoFactsError(f"{argv[0]}: No such file or directory")
        return self._says() if callable(self._says) else self._says

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _look(self) -> float:
        if self._seconds:
            self.now += self._seconds.pop(0)
        return self.now
