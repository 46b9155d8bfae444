"""The devices of a node: its GPUs by the names that a lab has for them, and the node itself."""

from __future__ import annotations

from raylab_health import gpus
from raylab_health.model import CPU, SIMULATED, Context, NotHereError, UnreadableError

Device = dict[str, str]


def devices(context: Context, simulated: int) -> list[Device]:
    """Name and model of each; `simulated` is the number of GPUs that Ray was told of."""
    return [*_gpus(context, simulated), {"name": CPU, "model": processor(context)}]


def processor(context: Context) -> str:
    """The processor's name, or the machine's kind where the kernel tells none."""
    try:
        lines = context.text("proc/cpuinfo").splitlines()
    except (NotHereError, UnreadableError):
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or context.machine()


def _gpus(context: Context, simulated: int) -> list[Device]:
    if context.vendor == SIMULATED:
        return [{"name": f"gpu-{index}", "model": SIMULATED} for index in range(simulated)]
    if context.vendor == "amd" and simulated:
        visible, _ = gpus.amd(context.root, context.environ)
        return [{"name": gpu["gpu"], "model": gpu["name"]} for gpu in visible]
    if context.vendor == "nvidia" and simulated:
        return _nvidia(context)
    return []


def _nvidia(context: Context) -> list[Device]:
    """Those that CUDA_VISIBLE_DEVICES names, or all that NVML lists."""
    named = [
        name.strip() for name in context.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()
    ]
    try:
        nvml = context.nvml()
        models = {}
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = _text(nvml.nvmlDeviceGetUUID(handle))
                models[uuid] = ""
                models[uuid] = _text(nvml.nvmlDeviceGetName(handle))
            except nvml.NVMLError:  # one that has fallen off the bus, or a driver that tells no names
                continue
    except (NotHereError, UnreadableError):
        models = {}
    whole = {uuid: models.get(uuid) or models.get(f"GPU-{uuid}", "") for uuid in named} if named else models
    return [{"name": name, "model": model} for name, model in whole.items()]


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
