"""Checks of `doctor`: questions about this machine and, when it is up, about the lab.

`facts` gathers, `machine` and `running` judge. To add a check: a function there, its place in the list at the
end of that module, its cases in the tests, and the fact that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lab.errors import EngineError, LabError
from lab.extension import call, extensions, failures
from lab.flows.doctor.containers import container_checks
from lab.flows.doctor.facts import gather_containers, gather_facts, gather_lab, gather_tools
from lab.flows.doctor.machine import machine_checks, resource_warnings
from lab.flows.doctor.model import Containers, Facts, RunningLab, Tools
from lab.flows.doctor.running import running_checks
from lab.lab import Lab
from lab.runtime.base import LabView
from lab.topology import DEFAULT_LAB, Check, LabSpec, LabStatus

__all__ = ["Check", "gather_facts", "resource_warnings", "run_checks"]


def open_lab(kind: str, lab: str) -> LabView:
    """The lab on the runtime that this machine would use for it. Raises what `Lab()` raises."""
    return Lab(kind, name=lab).view


def run_checks(
    lab: str = DEFAULT_LAB,
    runtime: str = "auto",
    *,
    facts: Callable[[], Facts] = gather_facts,
    tools: Callable[[], Tools] = gather_tools,
    opener: Callable[[str, str], LabView] = open_lab,
    observe: Callable[[LabView, LabStatus], RunningLab] = gather_lab,
    containers: Callable[[], Containers] = gather_containers,
) -> tuple[Check, ...]:
    """Every check of this machine, and of the lab of this name when it is up.

    Memory is judged for the default number of workers, or that of a lab that is up. What cannot be found out
    is an answer too. Raises UsageError and UnsupportedError for a `runtime` that cannot be.
    """
    about_lab: tuple[Check, ...] = ()
    up: LabView | None = None
    processes, running, workers = "", False, LabSpec.workers
    try:
        opened = opener(runtime, lab)
        processes = "" if opened.needs_engine else opened.kind
    except EngineError as error:  # the checks of Docker say more
        about_lab = (Check("lab", "failed", error.message, error.hint),)
    else:
        try:
            status = opened.status()
            about_lab = (Check("lab", "skipped", f"lab {lab} is not up", "`labctl up` starts it"),)
            if status.up:
                workers = opened.spec().workers
                about_lab, running, up = running_checks(observe(opened, status)), True, opened
        except LabError as error:
            about_lab = (Check("lab", "failed", error.message, error.hint),)
    available = tools()
    machine = machine_checks(facts(), available, workers, processes, running=running)
    about_containers = () if processes else container_checks(containers(), available)
    return (*machine, *about_containers, *about_lab, *extension_checks(up))


def extension_checks(lab: LabView | None) -> Iterator[Check]:
    """The checks of extensions; `lab` is None where it is not up. One that fails with an error says so."""
    for name, failure in failures().items():
        detail = f"extension {name} does not load: {failure!r}"
        yield Check("extensions", "failed", detail, "mend the package that brings it, or uninstall it")
    for extension in extensions():
        for path in extension.checks:
            try:
                answer = call(path, lab)
                detail = f"{path} returned {answer!r}, which is no Check"
            except (Exception, SystemExit) as error:  # whatever the code of somebody else raises
                answer, detail = None, f"{path} raised {error!r}"
            failed = Check(extension.name, "failed", detail, "mend the package that brings it")
            yield answer if isinstance(answer, Check) else failed
