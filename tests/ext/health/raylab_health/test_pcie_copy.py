# ruff: noqa: N802 - the fake has the names of CUDA's own functions
"""The measurement of a GPU's bandwidth, with a driver that stands in for CUDA's."""

from __future__ import annotations

from typing import Any

import pytest

from raylab_health.pcie_copy import main


class FakeCuda:
    """A driver in which one function ends with an error; the others do nothing."""

    def __init__(self, failing: str = "", code: int = 0) -> None:
        self._failing, self._code = failing, code

    def __getattr__(self, name: str) -> Any:
        if name == self._failing and not self._code:
            raise AttributeError(f"undefined symbol: {name}")
        return lambda *_: self._code if name == self._failing else 0

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"operation not supported"
        return 0


def test_a_measurement_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FakeCuda) == 0
    assert float(capsys.readouterr().out) > 0


@pytest.mark.parametrize(
    ("cuda", "said"),
    [
        (FakeCuda("cuCtxCreate_v2", 801), "CUDA's driver: operation not supported (801)\n"),
        (FakeCuda("cuMemAlloc_v2"), "CUDA's driver: undefined symbol: cuMemAlloc_v2\n"),
    ],
)
def test_an_error_of_the_driver_is_one_line(
    cuda: FakeCuda, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(lambda: cuda) == 1
    assert capsys.readouterr().out == said


def test_without_a_driver_nothing_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    def load() -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    assert main(load) == 1
    assert "libcuda.so.1: cannot open" in capsys.readouterr().out
