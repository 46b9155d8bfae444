"""`gpu-sick`: a health check of a GPU fails, and the GPU must not be used any more."""

from __future__ import annotations

from lab.errors import NotFoundError, RefusedError
from lab.faults import Expected, FaultKind, Parameter, Scene, Scope, Traits, lasting
from lab.faults.kinds._health import Ordered, gpu_of
from lab.faults.kinds._queues import queues_of

CHECKS = ("ecc", "remapped", "xid", "pciebw", "pcie-link", "temperature", "gpumem")
"""Checks by the number of the parameter, counted from 1."""


class GpuSick(Ordered):
    """A chosen check of the GPU on the target says EVICT. The GPU itself is left as it is."""

    kind = FaultKind(
        name="gpu-sick",
        summary="a health check of the node's GPU says EVICT; ordered, the GPU is not harmed",
        scope=Scope.NODE,
        parameters=(
            lasting("how long the check says so", 20.0),
            Parameter("check", "number", f"1 {', '.join(f'{n} {c}' for n, c in enumerate(CHECKS, 1))}"[2:],
                      1.0, 1.0, float(len(CHECKS))),
        ),
        revert="the check decides again; the GPU takes work when it has passed twice",
        expected=Expected.SICK,
        traits=Traits("has a sick GPU"),
    )  # fmt: skip
    state = "EVICT"

    def refuse(self, scene: Scene) -> None:
        """Raise RefusedError also for a job that nobody would move."""
        super().refuse(scene)
        if not scene.job:
            return
        try:
            queues_of(scene).describe(scene.job)
        except NotFoundError as error:
            raise RefusedError(
                f"job {scene.job} was submitted past the controller, which could not move it",
                "labctl submit RECIPE --queue NAME, or with --retry-limit 3",
            ) from error

    def check(self, scene: Scene) -> str:
        return CHECKS[int(scene.parameters["check"]) - 1]

    def device(self, scene: Scene) -> str:
        return gpu_of(scene)

    def inject(self, scene: Scene) -> None:
        self.refuse(scene)
        super().inject(scene)
