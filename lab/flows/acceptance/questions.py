"""Questions of the acceptance, in the order in which they are asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.api.health import CPU, HealthView
from lab.cluster.submission import Submission
from lab.errors import LabError
from lab.flows.doctor import pinning
from lab.flows.recovery import FaultRequest, inject
from lab.host.clock import Clock, poll
from lab.host.quantities import plural
from lab.lab import Lab
from lab.topology import GpuPlan

COMPUTES = "GPUs compute"
"""The question whose answer decides which others make sense."""

JOB = Path(__file__).resolve().parent / "job"
RECIPE = "digits"
EPOCHS = 12
BREAK_AFTER_EPOCH = 5

LINE = 200
"""Characters of a job's last line that are kept."""

SOFTWARE = """
import torch
from pathlib import Path
from raylab_health.model import load_nvml
build = torch.version.cuda or torch.version.hip
try:
    if torch.version.hip:
        driver = Path("/sys/module/amdgpu/version").read_text().strip()
    else:
        nvml = load_nvml()
        nvml.nvmlInit()
        driver = nvml.nvmlSystemGetDriverVersion()
except Exception as error:
    driver = f"unknown ({error})"
print(f"driver {driver}, PyTorch {torch.__version__}, built for", build or "the CPU")
"""
"""Prints, in a worker, the versions that count."""


PCIE, MEMORY = "pciebw", "gpumem"
ALONE = (PCIE, MEMORY)
"""Checks of health that are questions of their own."""


@dataclass(frozen=True)
class Question:
    """A question to a lab."""

    name: str
    ask: Callable[[float], tuple[bool | None, str]]
    """Gets the seconds it may take. Tells whether it is so (None: that cannot be asked here), and the number
    or the reason."""
    seconds: float
    """Most that it may take."""
    computes: bool = False
    """True if a GPU has to compute for it."""
    least: float = 30.0
    """Seconds below which it is not begun."""


def all_questions(lab: Lab, plan: GpuPlan, clock: Clock) -> tuple[Question, ...]:
    """All of them. Together they may take longer than there is time: most take seconds."""
    workers = len(plan.assignments)
    return (
        Question("software", partial(_software, lab), 60.0),
        Question("pinning", partial(_pinned, lab), 60.0),
        Question("health", partial(_healthy, lab, ""), 90.0),
        Question("sick and well", partial(_sick_and_well, lab, clock), 120.0),
        Question("PCIe bandwidth", partial(_healthy, lab, PCIE), 120.0),
        Question(COMPUTES, partial(_compute, lab), 330.0),
        Question("training", partial(train, lab, workers), 180.0, computes=True, least=60.0),
        Question("all-reduce", partial(all_reduce, lab, plan), 120.0, computes=True, least=60.0),
        Question("recovery", partial(recover, lab, workers), 240.0, computes=True, least=120.0),
    )


def _software(lab: Lab, seconds: float) -> tuple[bool, str]:
    service = lab.view.spec().worker_services[0]
    done = lab.control.execute(service, ("python", "-c", SOFTWARE), timeout=seconds)
    return done.exit_code == 0, done.output.strip().rpartition("\n")[2]


def _pinned(lab: Lab, seconds: float) -> tuple[bool, str]:
    views = pinning.look(lab.control, lab.api.nodes())
    pinning.check(views)
    return True, f"{plural(len(views), 'worker')}, each with the GPU planned for it"


def _healthy(lab: Lab, check: str, seconds: float) -> tuple[bool | None, str]:
    """Let the checks of health, or one of them, be made on every GPU; all but those asked alone."""
    view = lab.health.run_and_wait("", check, seconds)
    gpus = [device for device in view.devices if device.device != CPU]
    results = [(gpu, result) for gpu in gpus for result in gpu.checks if _asked(result.name, check)]
    bad = [
        f"{gpu.device}: {result.name} says {result.last} ({result.message})"
        for gpu, result in results
        if result.last != "PASS"
    ]
    if bad:
        return False, "; ".join(bad)
    unmade = _unmade(view, {gpu.node for gpu in gpus}, check)
    if not results or (check and unmade):
        return None, "; ".join(unmade) or "no GPU has been checked"
    made = f"{plural(len(results), 'result')} on {plural(len({gpu.device for gpu, _ in results}), 'GPU')}"
    return True, f"{made}; not made: {'; '.join(unmade)}" if unmade else made


def _asked(name: str, check: str) -> bool:
    """Tell whether a question about `check`, or about all of them, is one about the check of this name."""
    return name == check if check else name not in ALONE


def _compute(lab: Lab, seconds: float) -> tuple[bool, str]:
    """Let every GPU compute; one of which that cannot be asked does not."""
    passed, detail = _healthy(lab, MEMORY, seconds)
    return passed is True, detail


def _unmade(view: HealthView, nodes: set[str], check: str) -> list[str]:
    """Checks that nodes with GPUs cannot make, each reason once."""
    unmade = [reasons for node, reasons in view.skipped.items() if node in nodes]
    given = (f"{name} ({why})" for reasons in unmade for name, why in reasons.items() if _asked(name, check))
    return list(dict.fromkeys(given))


def _sick_and_well(lab: Lab, clock: Clock, seconds: float) -> tuple[bool, str]:
    """Order a sick GPU, and see that health tells it; then that it gets well."""
    gpu = next((device for device in lab.health.view().devices if device.device != CPU), None)
    if gpu is None:
        return False, "health knows no GPU"
    node, device = gpu.node, gpu.device

    def is_sick() -> bool:
        return any(
            now.state == "EVICT"
            for now in lab.health.view().devices
            if (now.node, now.device) == (node, device)
        )

    if is_sick():
        return False, f"{device} of {node} is EVICT before anything was done"
    begin = clock()
    lab.health.override(node, device, "ecc", "EVICT", message="ordered by doctor --gpu-acceptance")
    try:
        poll(lambda: is_sick() or None, timeout=seconds / 2, waited_for="EVICT of the sick GPU", clock=clock)
    finally:
        lab.health.lift(node, device, "ecc")
    seen = clock() - begin
    poll(lambda: not is_sick() or None, timeout=seconds / 2, waited_for="PASS of the GPU", clock=clock)
    return True, f"EVICT after {seen:.1f} s, well {clock() - begin - seen:.1f} s later"


def train(lab: Lab, workers: int, seconds: float) -> tuple[bool, str]:
    """Train on every GPU at once."""
    settings = {"workers": str(workers), "epochs": "3", "gpus": "1"}
    passed, detail = _ended(lab, lab.submit_recipe(RECIPE, settings).submission_id, seconds)
    return passed, f"{RECIPE} on {plural(workers, 'worker')}, each with its GPU" if passed else detail


def all_reduce(lab: Lab, plan: GpuPlan, seconds: float) -> tuple[bool | None, str]:
    """Sum a tensor over every GPU, with NCCL."""
    if len(plan.assignments) < 2:
        return None, "needs two GPUs"
    if plan.shared:
        return None, "needs a GPU for each worker: NCCL refuses two ranks on one"
    command = ("python", "all_reduce.py", str(len(plan.assignments)))
    return _ended(lab, lab.submit(Submission(command, JOB)).submission_id, seconds)


def recover(lab: Lab, workers: int, seconds: float) -> tuple[bool | None, str]:
    """Kill a worker while it trains on its GPU: the receipt says whether the training recovered."""
    if workers < 2:
        return None, "needs two workers"
    part = seconds / 3
    settings = {"workers": "1", "epochs": str(EPOCHS), "gpus": "1"}
    job = lab.submit_recipe(RECIPE, settings).submission_id
    request = FaultRequest(job=job, after_epoch=BREAK_AFTER_EPOCH, timeout=part)
    try:
        receipt = inject(lab, request, lambda _: None).receipt
    finally:
        _stop(lab, job)
    assert receipt is not None
    return receipt.verdict == "recovered", f"{receipt.verdict.value}: {receipt.reason}"


def _ended(lab: Lab, job: str, seconds: float) -> tuple[bool, str]:
    """Whether a job succeeds in time, with the last line that it has printed, or the cause of its failure."""
    try:
        ended = lab.jobs.wait(job, seconds)
    finally:
        _stop(lab, job)
    if ended.status == "SUCCEEDED":
        return True, lab.jobs.logs(job).strip().rpartition("\n")[2][-LINE:]
    explanation = lab.why_failed(ended)
    return False, explanation.summary if explanation else ended.message.strip().rpartition("\n")[2][-LINE:]


def _stop(lab: Lab, job: str) -> None:
    """End a job that has not ended: nothing of the acceptance is left behind."""
    with contextlib.suppress(LabError):
        if not lab.jobs.get(job).final:
            lab.jobs.stop(job)
