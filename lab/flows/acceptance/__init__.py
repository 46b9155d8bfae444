"""`doctor --gpu-acceptance`: checks of a lab on real GPUs, ten minutes in all, for a report that can be sent.

The checks are those of `gpus`, `health` and `demo`, asked in turn; only the all-reduce is of its own.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lab.cluster.health import CPU
from lab.cluster.submission import Submission
from lab.errors import LabError, RefusedError
from lab.flows.demo import RECIPE, DemoRequest, run_demo
from lab.flows.doctor import pinning
from lab.host.clock import MONOTONIC, Clock, poll
from lab.host.quantities import plural
from lab.lab import Lab
from lab.topology import Check, GpuPlan, Vendor
from lab.version import __version__

SCHEMA = "gpu-acceptance/1"

JOB = Path(__file__).resolve().parent / "job"
JOB_SECONDS = 300.0
COMPUTE_SECONDS = 330.0
"""A little more than a health check that computes may take."""
STATE_SECONDS = 60.0
"""A GPU that is well again is believed after two good results."""

EPOCHS = 12
COMPUTES = "GPUs compute"
NEEDS = f"needs the device: a GPU that computes (see `{COMPUTES}`)"

OnCheck = Callable[[Check], None]


def accept(lab: Lab, on_check: OnCheck, *, clock: Clock = MONOTONIC) -> tuple[Check, ...]:
    """Every check of the GPUs of a lab that is up; `on_check` gets each when it has ended.

    What fails is an answer. Raises LabDownError, and RefusedError for a lab without GPUs.
    """
    plan = lab.gpu_plan
    if plan.vendor not in (Vendor.NVIDIA, Vendor.AMD):
        raise RefusedError(
            f"lab {lab.name} has no GPUs (GPU {plan.vendor.value})",
            "`labctl down`, then `labctl up --gpu nvidia` (or amd)",
        )
    answers: list[Check] = []
    computes = True
    for name, ask, needs_device in _questions(lab, plan, clock):
        answer = _answer(name, ask) if computes or not needs_device else Check(name, "skipped", NEEDS)
        computes = computes and (name != COMPUTES or answer.outcome == "passed")
        answers.append(answer)
        on_check(answer)
    return tuple(answers)


def report(lab: Lab, checks: tuple[Check, ...]) -> dict[str, Any]:
    """The document to send: no address, no name of the machine, and none of the lab's secrets."""
    plan, at = lab.gpu_plan, lab.endpoints()
    secrets = (at.ray_token, at.credentials.secret_key, at.credentials.access_key, at.grafana_password)

    def harmless(text: str) -> str:
        for secret in filter(None, (*secrets, str(Path.home()), platform.node())):
            text = text.replace(secret, "...")
        return text

    return {
        "schema": SCHEMA,
        "raylab": __version__,
        "runtime": lab.runtime.kind,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "vendor": plan.vendor.value,
        "gpus": [assignment.name for assignment in plan.assignments],
        "shared": plan.shared,
        "ok": all(check.outcome != "failed" for check in checks),
        "checks": [
            {"name": c.name, "outcome": c.outcome, "detail": harmless(c.detail), "hint": harmless(c.hint)}
            for c in checks
        ],
    }


Ask = Callable[[], tuple[bool | None, str]]
"""Tells whether it is so (None: it cannot be asked here), and the number or the reason."""


def _questions(lab: Lab, plan: GpuPlan, clock: Clock) -> Iterator[tuple[str, Ask, bool]]:
    """(name, question, whether a GPU has to compute for it), in the order in which they are asked."""
    workers = len(plan.assignments)
    yield "pinning", lambda: _pinned(lab), False
    yield "health", lambda: _healthy(lab, "", STATE_SECONDS), False
    yield "sick and well", lambda: _sick_and_well(lab, plan, clock), False
    yield "PCIe bandwidth", lambda: _healthy(lab, "pciebw", COMPUTE_SECONDS), False
    yield COMPUTES, lambda: _healthy(lab, "gpumem", COMPUTE_SECONDS), False
    yield "training", lambda: _train(lab, workers), True
    yield "all-reduce", lambda: _all_reduce(lab, plan), True
    yield "recovery", lambda: _recover(lab), True


def _answer(name: str, ask: Ask) -> Check:
    try:
        passed, detail = ask()
    except LabError as error:
        return Check(name, "failed", error.message, error.hint)
    return Check(name, "skipped" if passed is None else "passed" if passed else "failed", detail)


def _pinned(lab: Lab) -> tuple[bool, str]:
    views = pinning.look(lab.runtime, lab.api.nodes())
    pinning.check(views)
    return True, f"{plural(len(views), 'worker')}, each with the GPU planned for it"


def _healthy(lab: Lab, check: str, seconds: float) -> tuple[bool | None, str]:
    """Ask for the checks of health, or one of them, of every GPU."""
    found = lab.health.run_and_wait("", check, seconds)
    asked = [
        (device, result)
        for device in found["devices"]
        for result in device["checks"]
        if device["device"] != CPU and check in ("", result["name"])
    ]
    bad = [
        f"{device['device']}: {result['name']} says {result['last']} ({result['message']})"
        for device, result in asked
        if result["last"] != "PASS"
    ]
    skipped = {why for each in found["skipped"].values() for name, why in each.items() if name == check}
    if bad or not asked:
        return (False if bad or check else None), "; ".join(bad or skipped or {"no GPU has been checked"})
    return True, f"{plural(len(asked), 'result')} on {plural(len({d['device'] for d, _ in asked}), 'GPU')}"


def _sick_and_well(lab: Lab, plan: GpuPlan, clock: Clock) -> tuple[bool, str]:
    """Order a sick GPU, and see that health tells it; then that it gets well."""
    gpu = next(each for each in lab.health.view()["devices"] if each["device"] != CPU)
    node, device = str(gpu["node"]), str(gpu["device"])

    def state_is(sick: bool) -> bool | None:
        devices = lab.health.view()["devices"]
        now = next(e["state"] for e in devices if (e["node"], e["device"]) == (node, device))
        return True if (now == "EVICT") is sick else None

    begin = clock()
    lab.health.override(node, device, "ecc", "EVICT", message="acceptance")
    try:
        poll(lambda: state_is(True), timeout=STATE_SECONDS, waited_for="the sick GPU", clock=clock)
    finally:
        lab.health.lift(node, device, "ecc")
    sick = clock() - begin
    poll(lambda: state_is(False), timeout=STATE_SECONDS, waited_for="the GPU that is well", clock=clock)
    return True, f"told after {sick:.1f} s, well {clock() - begin - sick:.1f} s later"


def _ended(lab: Lab, job: str) -> tuple[bool, str]:
    ended = lab.jobs.wait(job, JOB_SECONDS)
    if ended.status == "SUCCEEDED":
        return True, lab.jobs.logs(job).strip().rpartition("\n")[2][-200:]
    explanation = lab.why_failed(ended)
    return False, explanation.told if explanation else ended.message.strip().rpartition("\n")[2][-200:]


def _train(lab: Lab, workers: int) -> tuple[bool, str]:
    settings = {"workers": str(workers), "epochs": "3", "gpus": "1"}
    passed, detail = _ended(lab, lab.submit_recipe(RECIPE, settings).submission_id)
    return passed, f"{RECIPE} on {plural(workers, 'GPU')}" if passed else detail


def _all_reduce(lab: Lab, plan: GpuPlan) -> tuple[bool | None, str]:
    if len(plan.assignments) < 2 or plan.shared:
        return None, "needs two workers with a GPU each"
    return _ended(lab, lab.submit(Submission(("python", "all_reduce.py"), JOB)).submission_id)


def _recover(lab: Lab) -> tuple[bool | None, str]:
    spec = lab.runtime.spec()
    if spec.workers < 2:
        return None, "needs two workers"
    request = DemoRequest(epochs=EPOCHS, control=False)
    receipt = run_demo(lab, spec, request, lambda _: None, lambda _: None).receipt
    return receipt.verdict == "recovered", f"{receipt.verdict}: {receipt.reason}"
