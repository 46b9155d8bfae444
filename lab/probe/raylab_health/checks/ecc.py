"""Memory errors that the GPU's error-correcting code could not correct, since the driver was loaded."""

from __future__ import annotations

from raylab_health import amd
from raylab_health.model import EVICT, GPU, PASS, Check, Context, Finding, NotHereError
from raylab_health.nvml import ask


def run(context: Context, device: str) -> Finding:
    """EVICT for one uncorrected error: a result may be wrong already."""
    if context.vendor == "amd":
        count = _amd(context, device)
    else:
        kinds = ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC")
        count = int(ask(context, device, "nvmlDeviceGetTotalEccErrors", *kinds))
    message = f"{count} uncorrected memory errors since the driver was loaded" if count else ""
    return Finding(EVICT if count else PASS, float(count), "errors", message)


def _amd(context: Context, device: str) -> int:
    """The line `ue: N` of the memory controller's error counts."""
    for line in amd.read(context, device, "ras/umc_err_count").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "ue" and value.strip().isdigit():
            return int(value)
    raise NotHereError("ras/umc_err_count has no line `ue: N`")


CHECK = Check("ecc", GPU, 5.0, run)
