"""The settings of `Lab.up`: defaults, what is asked for, and what a lab that is up keeps."""

from __future__ import annotations

import pytest

from lab.asked import gpu_plan, spec_of
from lab.errors import GpuError, RefusedError, UsageError
from lab.lab import Lab
from lab.runtime.fake import FakeRuntime
from lab.topology import LabSpec, Vendor


def test_without_settings_a_new_lab_is_what_labctl_up_starts() -> None:
    spec = spec_of(FakeRuntime("mine"), gpu="none")

    assert spec == LabSpec("mine", gpu_plan("none", 2, "fake"))


def test_settings_make_the_spec() -> None:
    spec = spec_of(FakeRuntime("mine"), gpu="simulated", workers=3, cpus_per_worker=4, ports={"s3": 9000})

    assert (spec.workers, spec.cpus_per_worker, spec.ports) == (3, 4, (("s3", 9000),))
    assert (spec.gpu.vendor, len(spec.gpu.assignments)) == (Vendor.SIMULATED, 3)


def test_a_lab_that_is_up_keeps_what_is_not_said() -> None:
    lab = Lab(FakeRuntime("mine"))
    lab.up(gpu="simulated", workers=3, cpus_per_worker=4)

    assert lab.up().healthy
    assert lab.up(gpu="simulated", workers=3).healthy
    spec = lab.runtime.spec()
    assert (spec.workers, spec.cpus_per_worker, spec.gpu.vendor) == (3, 4, Vendor.SIMULATED)


@pytest.mark.parametrize("settings", [{"workers": 2}, {"cpus_per_worker": 1}, {"gpu": "none"}])
def test_other_settings_for_a_lab_that_is_up_are_refused(settings: dict[str, int]) -> None:
    lab = Lab(FakeRuntime("mine"))
    lab.up(gpu="simulated", workers=3)

    with pytest.raises(RefusedError, match="up with other settings"):
        lab.up(**settings)  # type: ignore[arg-type]


def test_settings_that_make_no_sense_are_refused_before_anything_starts() -> None:
    lab = Lab(FakeRuntime("mine"))

    for settings in ({"workers": 0}, {"cpus_per_worker": 0}, {"gpu": "abacus"}, {"ports": {"ftp": 2000}}):
        with pytest.raises(UsageError):
            lab.up(**settings)
    with pytest.raises(UsageError, match="a spec and single settings"):
        lab.up(LabSpec("mine"), workers=2)
    with pytest.raises((UsageError, GpuError)):
        lab.up(gpu="simulated", gpus=["0", "1"])
    assert not lab.status().up
