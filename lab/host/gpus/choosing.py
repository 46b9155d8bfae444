"""`--gpus`: finds the GPUs that a person has named.

A GPU is named by its UUID or the beginning of one (`GPU-5c0d`, or `5c0d` without the prefix), by its index as
`labctl gpus` and nvidia-smi show it, or, on AMD, by its render node (`renderD128`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.errors import GpuError, UsageError
from lab.host.gpus.model import BRANDS, Detection, Gpu, GpuRequest
from lab.host.quantities import plural
from lab.topology import Vendor

SEE = "`labctl gpus` lists them"


def choose(
    request: GpuRequest, workers: int, detections: Mapping[Vendor, Detection]
) -> tuple[Vendor, tuple[Gpu, ...]]:
    """The vendor and the GPUs that are named, in that order; each once.

    Raises GpuError for a GPU that is not there; UsageError when a name is ambiguous, a GPU is named twice or
    stands for several workers that may not share, vendors are mixed, or the number is wrong.
    """
    gpus = [_one(name, detections) for name in request.gpus]
    vendors = {gpu.vendor for gpu in gpus}
    if len(vendors) > 1:
        raise UsageError(
            f"--gpus {','.join(request.gpus)}: these are GPUs of both vendors; a lab uses those of one",
            "name NVIDIA GPUs or AMD GPUs, with --gpu nvidia or --gpu amd",
        )
    if not request.share_gpu:
        _each_once(request.gpus, gpus)
    number, distinct = len(gpus), tuple(dict.fromkeys(gpus))
    if number > workers:
        raise UsageError(
            f"--gpus names {number} GPUs for {plural(workers, 'worker')}",
            f"start as many: --workers {number}",
        )
    if number < workers and not request.share_gpu:
        raise UsageError(
            f"--gpus names {plural(number, 'GPU')} for {plural(workers, 'worker')}",
            f"name {workers}, start fewer: --workers {number}, or let several workers share one: --share-gpu",
        )
    # Named twice is meant so: the order of the names is the order of the workers.
    return vendors.pop(), tuple(gpus) if number == workers else distinct


def _one(name: str, detections: Mapping[Vendor, Detection]) -> Gpu:
    gpus = [gpu for detection in detections.values() for gpu in detection.gpus]
    matches = [gpu for gpu in gpus if _exactly(name, gpu)] or [gpu for gpu in gpus if _begins(name, gpu)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        brands = " or ".join(BRANDS[vendor] for vendor in detections)
        if not gpus:
            reasons = "; ".join(d.problem for d in detections.values() if d.problem)
            hints = [f"{BRANDS[vendor]}: {d.hint}" for vendor, d in detections.items() if d.hint]
            hint = "; ".join([*(hints or [SEE]), "or use --gpu simulated, which needs none"])
            raise GpuError(f"--gpus {name}: this machine has no {brands} GPU ({reasons})", hint)
        there = ", ".join(_shown(gpu) for gpu in gpus)
        raise GpuError(f"--gpus {name}: there is no such {brands} GPU", f"there are {there}; {SEE}")
    same = "; ".join(_shown(gpu) for gpu in matches)
    if len({gpu.vendor for gpu in matches}) > 1:
        raise UsageError(
            f"--gpus {name}: both vendors have such a GPU ({same})", "say which: --gpu nvidia or --gpu amd"
        )
    more = "write more of the UUID"
    if len({gpu.uuid for gpu in matches}) == 1:  # partitions of an AMD card have that of the card
        more = "name it by its index, or by its render node"
    raise UsageError(f"--gpus {name}: ambiguous ({same})", f"{more}; {SEE}")


def _exactly(name: str, gpu: Gpu) -> bool:
    """True if this is the GPU's index, its UUID, or its render node."""
    if name.isdigit() and len(name) <= 3:
        return gpu.index == int(name)
    render = f"renderD{gpu.render_minor}" if gpu.render_minor is not None else ""
    return name.lower() == gpu.uuid.lower() or name.removeprefix("/dev/dri/") == render


def _begins(name: str, gpu: Gpu) -> bool:
    if not gpu.uuid or (name.isdigit() and len(name) <= 3):
        return False
    uuid, begin = gpu.uuid.lower(), name.lower()
    prefix, _, rest = uuid.partition("-")
    return (len(begin) > len(prefix) and uuid.startswith(begin)) or rest.startswith(begin)


def _each_once(chosen: Sequence[str], gpus: Sequence[Gpu]) -> None:
    for position, gpu in enumerate(gpus):
        if gpu in gpus[:position]:
            raise UsageError(
                f"--gpus {','.join(chosen)}: {_shown(gpu)} is named twice",
                "give each worker a GPU of its own, or let them share one: --share-gpu",
            )


def _shown(gpu: Gpu) -> str:
    return f"{gpu.vendor.value} {gpu.index}: {gpu.uuid or gpu.label}"
