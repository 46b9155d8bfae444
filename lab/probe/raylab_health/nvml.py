"""One question to NVML about one GPU, and what its errors mean for health."""

from __future__ import annotations

from typing import Any

from raylab_health.model import Context, LostError, NotHereError, UnreadableError

LOST = (
    "NVML_ERROR_GPU_IS_LOST",
    "NVML_ERROR_RESET_REQUIRED",
    "NVML_ERROR_NOT_FOUND",
    "NVML_ERROR_GPU_NOT_FOUND",
)
"""The GPU has fallen off the bus, needs a reset, or is no longer listed."""

ABSENT = ("NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_NO_PERMISSION", "NVML_ERROR_FUNCTION_NOT_FOUND")
"""This GPU or this driver does not have the counter."""


def ask(context: Context, device: str, function: str, *arguments: Any) -> Any:
    """The answer of an NVML function on this GPU. Raises NotHereError, UnreadableError, LostError.

    `arguments` that are names of NVML's constants are replaced by their values.
    """
    nvml = context.nvml()
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(device)
        values = [
            getattr(nvml, argument) if isinstance(argument, str) else argument for argument in arguments
        ]
        return getattr(nvml, function)(handle, *values)
    except AttributeError as error:
        raise NotHereError(f"this NVML has no {function}") from error
    except nvml.NVMLError as error:
        code, message = getattr(error, "value", None), f"{function}: {error}"
        if code in _codes(nvml, LOST):
            raise LostError(message) from error
        if code in _codes(nvml, ABSENT):
            raise NotHereError(message) from error
        raise UnreadableError(message) from error


def _codes(nvml: Any, names: tuple[str, ...]) -> set[int]:
    return {getattr(nvml, name) for name in names if hasattr(nvml, name)}
