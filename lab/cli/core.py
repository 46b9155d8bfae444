"""The one door from the command line to the rest of labctl. Heavy imports happen in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.datasets import Dataset, Shelf
    from lab.faults import FaultKind
    from lab.faults.active import ActiveFault
    from lab.flows.chaos import ChaosResult, Plan
    from lab.flows.demo import DemoRequest, DemoResult
    from lab.flows.doctor import Check
    from lab.flows.doctor.pinning import WorkerView
    from lab.flows.images import Archive, Built, ImageNeed
    from lab.flows.lessons.model import Lesson, LessonResult
    from lab.flows.lessons.notebook import OnStep
    from lab.flows.recovery import FaultRequest, Moment, Outcome
    from lab.flows.recovery.heal import Healed
    from lab.flows.report import ReportData, Written
    from lab.host.environment.progress import Progress
    from lab.host.gpus import Detection
    from lab.lab import Lab
    from lab.runtime.base import OnProgress
    from lab.spec import Asked
    from lab.topology import LabSpec, Vendor


@dataclass(frozen=True)
class Opened:
    """A lab, the runtime that serves it, and why that one."""

    lab: Lab
    runtime: str
    why: str


class Core:
    """What the commands call. A test puts another object in its place."""

    def open(self, runtime: str, name: str) -> Opened:
        """The lab of that name. Raises UsageError, UnsupportedError."""
        from lab.lab import Lab
        from lab.runtime.select import choose

        choice = choose(runtime, name)
        return Opened(Lab(choice.runtime), choice.kind, choice.why)

    def spec(self, lab: Lab, asked: Asked) -> LabSpec:
        """The lab that is asked for, over what it is while it is up. Raises GpuError, UsageError."""
        from lab.spec import spec_of

        return spec_of(lab.runtime, asked)

    def gpus(self, runtime: str) -> tuple[Detection, ...]:
        """What this machine has: NVIDIA's GPUs and AMD's, with what keeps a lab on this runtime from them."""
        from lab.host.gpus import amd_gpus, nvidia_gpus

        if runtime == "compose":
            from lab.host.gpus.docker import listed

            return listed()
        return nvidia_gpus(), amd_gpus()

    def worker_views(self, lab: Lab) -> tuple[WorkerView, ...]:
        """What each worker of a lab that is up really sees. Raises LabDownError, ClusterError."""
        from lab.flows.doctor.pinning import look

        return look(lab.runtime, lab.api.nodes())

    def resource_warnings(self, workers: int) -> tuple[Check, ...]:
        """What is scarce on this machine for a lab with so many workers."""
        from lab.flows.doctor import gather_facts, resource_warnings

        return resource_warnings(gather_facts(), workers)

    def faults(self) -> tuple[FaultKind, ...]:
        """Every fault that can be injected."""
        from lab.faults import catalogue

        return catalogue()

    def inject(
        self,
        lab: Lab,
        request: FaultRequest,
        on_moment: Callable[[Moment], None],
        *,
        wait: bool,
        control: bool = False,
    ) -> Outcome:
        """Break something on purpose and, with `wait`, follow the recovery to its receipt.

        With `control` the job is then repeated undisturbed, and compared.
        """
        from lab.flows.recovery import inject

        return inject(lab, request, on_moment, wait=wait, control=control)

    def schedule(self, path: Path) -> Plan:
        """The chaos that a YAML file describes. Raises NotFoundError, UsageError with the line."""
        from lab.flows.chaos import read_schedule

        return read_schedule(path)

    def random_plan(
        self,
        kinds: Sequence[str],
        *,
        every: float,
        seed: int,
        limit: int | None,
        seconds: float | None,
        parameters: Mapping[str, Mapping[str, float]],
        below_one: bool,
    ) -> Plan:
        """Chaos that is drawn from these faults. Raises NotFoundError, UsageError, RefusedError."""
        from lab.flows.chaos import random_plan

        return random_plan(
            kinds, every=every, seed=seed, limit=limit, seconds=seconds, parameters=parameters,
            below_one=below_one,
        )  # fmt: skip

    def chaos(
        self, lab: Lab, plan: Plan, on_moment: Callable[[Moment], None], *, job: str, control: bool
    ) -> ChaosResult:
        """Carry a plan out while a job trains, and judge each fault."""
        from lab.flows.chaos import run_chaos

        return run_chaos(lab, plan, on_moment, job=job, control=control)

    def lost_attempts(self, lab: Lab, job: str) -> tuple[str, ...]:
        """A sentence for each attempt that a job lost without a recorded fault. Raises StoreError."""
        from lab.flows.recovery.lost import lost_without_fault, recorded_faults

        return lost_without_fault(lab.history(job), recorded_faults(lab.store, job))

    def heal(
        self, lab: Lab, on_begin: Callable[[ActiveFault], None], on_progress: OnProgress
    ) -> tuple[Healed, ...]:
        """Undo the faults that a labctl has left behind which died in the middle of them, or gave up."""
        from lab.flows.recovery.heal import heal

        return heal(lab, on_begin, on_progress)

    def left_behind(self, lab: Lab) -> tuple[ActiveFault, ...]:
        """Those faults."""
        from lab.flows.recovery.heal import left_behind

        return left_behind(lab)

    def demo(
        self,
        lab: Lab,
        spec: LabSpec,
        request: DemoRequest,
        on_progress: OnProgress,
        on_moment: Callable[[Moment], None],
    ) -> DemoResult:
        """The whole story: up, train, break, recover, compare."""
        from lab.flows.demo import run_demo

        return run_demo(lab, spec, request, on_progress, on_moment)

    def report(
        self, lab: Lab, what: str, folder: Path | None, say: Callable[[str], None]
    ) -> tuple[ReportData, Written]:
        """Tell what became of a receipt or job, and write it down; `say` hears what is installed for that.

        Raises NotFoundError, UsageError, LabDownError, StoreError, SetupError.
        """
        from lab.flows import report
        from lab.host import environment

        subject = report.find_subject(lab, what)
        tale = report.build_report(report.read_evidence(lab, subject))
        environment.ensure("report", say)
        return tale, report.write_report(tale, folder or Path(f"raylab-report-{subject.job}"))

    def image_vendor(self, choice: str) -> Vendor:
        """For which GPUs images are meant: `auto` is what `up` would choose here. Raises nothing."""
        from lab.spec import gpu_plan
        from lab.topology import LabSpec, Vendor

        if choice != "auto":
            return Vendor(choice)
        return gpu_plan(choice, LabSpec.workers, "compose").vendor

    def images(self, vendor: Vendor) -> tuple[ImageNeed, ...]:
        """The images of a lab with these GPUs, then the stand-ins. Raises UnsupportedError."""
        from lab.flows import images

        return images.needs(vendor)

    def image_notes(self, vendor: Vendor) -> tuple[str, ...]:
        """What stands in, is left out or is out of date in a lab that is started now."""
        from lab.flows import images

        return images.resolve(vendor).notes

    def missing_images(self, vendor: Vendor) -> tuple[ImageNeed, ...]:
        """The images without which a lab with these GPUs cannot start."""
        from lab.flows import images

        return images.missing(vendor)

    def pull_images(self, vendor: Vendor, progress: Progress) -> tuple[ImageNeed, ...]:
        """Fetch what others publish. Raises SetupError, UnsupportedError."""
        from lab.flows import images

        return images.pull(vendor, progress=progress)

    def build_images(
        self, vendor: Vendor, offline: bool, suite: str, progress: Progress
    ) -> tuple[Built, ...]:
        """Build our own. Raises SetupError, UnsupportedError."""
        from lab.flows import images

        return images.build(images.variant(vendor), offline=offline, suite=suite, progress=progress)

    def save_images(self, path: Path, vendor: Vendor, progress: Progress) -> Archive:
        """Write what a lab runs on here into a file. Raises RefusedError, SetupError."""
        from lab.flows import images

        return images.save(path, images.to_save(vendor), progress=progress)

    def load_images(self, path: Path, progress: Progress) -> Archive:
        """Take in the images of a file. Raises NotFoundError, UsageError, SetupError."""
        from lab.flows import images

        return images.load(path, progress=progress)

    def checks(self, name: str, runtime: str) -> tuple[Check, ...]:
        """What `doctor` finds."""
        from lab.flows.doctor import run_checks

        return run_checks(name, runtime)

    def store_checks(
        self, url: str, bucket: str, file: Path | None, name: str, runtime: str
    ) -> tuple[Check, ...]:
        """What `doctor --s3` finds; the key of the lab `name` serves for the lab's own store."""
        from lab.flows.doctor.store import endpoints_of, store_checks

        return store_checks(url, bucket, file, endpoints=lambda: endpoints_of(name, runtime))

    def shelf(self) -> Shelf:
        """The data sets of this machine."""
        from lab.datasets import Shelf

        return Shelf()

    def food11(
        self,
        *,
        synthetic: int | None,
        seed: int | None,
        url: str | None,
        sha256: str | None,
        file: Path | None,
        force: bool,
        on_progress: Callable[[str, int, int], None],
    ) -> tuple[Dataset, bool]:
        """Food-11, drawn where `synthetic` says how many of each class; whether it was made now."""
        from lab import datasets

        shelf = self.shelf()
        if synthetic is not None:
            chosen = datasets.SEED if seed is None else seed
            return datasets.draw_food11(shelf, synthetic, chosen, force=force, on_progress=on_progress)
        urls = (url,) if url is not None else datasets.URLS
        return datasets.get_food11(
            shelf, urls=urls, file=file, sha256=sha256 or "", force=force, on_progress=on_progress
        )

    def lessons(self) -> tuple[Lesson, ...]:
        """Every lesson, in order."""
        from lab.flows.lessons.catalogue import lessons

        return lessons()

    def lesson(self, number: int) -> Lesson:
        """One lesson. Raises NotFoundError."""
        from lab.flows.lessons.catalogue import find_lesson

        return find_lesson(number)

    def lesson_results(self, lab: Lab) -> dict[int, dict[str, Any]]:
        """The best result of each lesson that was checked in this lab, as JSON, by number."""
        from lab.flows.lessons.run import results

        return results(lab)

    def collect_lessons(self, lab: Lab) -> str:
        """Copy results of lessons from the lab's store to this machine; why that failed, or nothing."""
        from lab.flows.lessons.run import collect

        return collect(lab)

    def run_lesson(
        self,
        lab: Lab,
        lesson: Lesson,
        spec: Callable[[], LabSpec],
        on_step: OnStep,
        on_progress: OnProgress,
    ) -> LessonResult:
        """Do a lesson and check it. Raises LessonError, RefusedError, LabDownError."""
        from lab.datasets import ensure
        from lab.flows.lessons.run import run_lesson

        return run_lesson(lab, lesson, spec, get_data=ensure, on_step=on_step, on_progress=on_progress)

    def check_lesson(self, lab: Lab, lesson: Lesson) -> LessonResult:
        """Check a lesson and keep the result. Raises LabDownError."""
        from lab.flows.lessons.run import check_lesson

        return check_lesson(lab, lesson)

    def test(self, arguments: Sequence[str], say: Callable[[str], None], *, to_stderr: bool) -> int:
        """Run labctl's own tests; returns their exit code. `to_stderr` keeps stdout for a JSON document."""
        from lab.flows import testing

        call = functools.partial(testing.call, to_stderr=to_stderr)
        return testing.run_tests(arguments, run=call, say=say)
