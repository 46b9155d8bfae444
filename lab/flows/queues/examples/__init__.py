"""Queues to begin with, sized by the lab that they are applied to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from lab.errors import NotFoundError
from lab.topology import LabSpec, Vendor

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))

PODS = 100
"""Pods of each queue of MLBatch."""


@dataclass(frozen=True)
class Example:
    """YAML of one example. `note` says from what its quotas were made, `queues` where jobs can be put."""

    text: str
    note: str
    queues: tuple[str, ...]


def example(name: str, spec: LabSpec, memory: int = 0) -> Example:
    """The example for a lab with this spec; `memory` is the machine's, in bytes, 0 for this one's.

    Its quotas are the lab's GPUs and logical CPUs; without GPUs, CPUs alone. Raises NotFoundError.
    """
    if name not in NAMES:
        raise NotFoundError(f"there is no example {name}", f"known: {', '.join(NAMES)}")
    gpu = "amd.com/gpu" if spec.gpu.vendor is Vendor.AMD else "nvidia.com/gpu"
    whole = {"cpu": spec.workers * spec.cpus_per_worker}
    if spec.gpu.assignments:
        whole[gpu] = len(spec.gpu.assignments)
    slack = {resource: amount // 3 for resource, amount in whole.items()}
    blue, red = _halves({resource: amount - slack[resource] for resource, amount in whole.items()})
    first, second = _halves(whole)
    third = f"{(memory or _memory()) // 3 // 1024**2}Mi"
    batch: dict[str, int | str] = {"memory": third, "pods": PODS}
    text = Template((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")).substitute(
        what=_words(whole, gpu),
        resources=json.dumps(list(whole)),
        whole=_quotas(whole),
        first=_quotas(first),
        second=_quotas(second),
        batch_resources=json.dumps([*whole, *batch]),
        slack=_quotas({**slack, **batch}),
        blue=_quotas({**blue, **batch}),
        red=_quotas({**red, **batch}),
    )
    return Example(text, _note(whole, gpu), _queues(text))


def _halves(whole: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Two parts, of which the first is larger where the number is odd."""
    second = {resource: amount // 2 for resource, amount in whole.items()}
    return {resource: amount - second[resource] for resource, amount in whole.items()}, second


def _quotas(amounts: Mapping[str, int | str]) -> str:
    return json.dumps([{"name": name, "nominalQuota": amount} for name, amount in amounts.items()])


def _words(whole: Mapping[str, int], gpu: str) -> str:
    cpus = f"{whole['cpu']} CPUs"
    gpus = whole.get(gpu, 0)
    return f"{gpus} {'GPU' if gpus == 1 else 'GPUs'} and {cpus}" if gpus else cpus


def _note(whole: Mapping[str, int], gpu: str) -> str:
    if gpu in whole:
        return f"quotas are those of this lab: {_words(whole, gpu)}"
    return f"this lab has no GPU, so its {_words(whole, gpu)} are what is shared"


def _queues(text: str) -> tuple[str, ...]:
    from kueue.reading import read

    return tuple("/".join(key) for key in read([("", text)]).setup.local_queues)


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
