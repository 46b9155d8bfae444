"""The pinned requirements: complete, consistent, and free of what belongs to one machine."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from packaging.markers import Marker

from lab.host import environment
from lab.host.environment.progress import pinned

REQUIREMENTS = Path(environment.ROOT) / "requirements"


def wanted(group: str) -> dict[str, str]:
    """Name -> line of each requirement in the .in file of a group."""
    lines = (REQUIREMENTS / f"{group}.in").read_text().splitlines()
    return {name: line for line in lines if not line.startswith("-") for name in pinned(line)}


def pins(group: str) -> set[str]:
    return set((REQUIREMENTS / f"{group}.txt").read_text().splitlines())


@pytest.mark.parametrize("group", ["installer", *environment.BUILDS_ON])
def test_every_requirement_is_pinned_for_every_python(group: str) -> None:
    text = (REQUIREMENTS / f"{group}.txt").read_text()
    assert set(wanted(group)) <= set(pinned(text))
    for line in text.splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", line), line


@pytest.mark.parametrize("group", environment.BUILDS_ON)
def test_a_missing_module_can_be_named_for_every_requirement(group: str) -> None:
    stubs = {name for name in wanted(group) if name.startswith("types-")}
    builds = {name for name in wanted(group) if name.removesuffix("-cpu") in set(wanted(group)) - {name}}
    brought = (environment.MODULES[group], environment.PROGRAMS.get(group, {}))
    packages = {name for part in brought for package in part.values() for name in pinned(package)}
    assert packages == set(wanted(group)) - stubs - builds


def test_the_groups_agree_on_every_package_they_share() -> None:
    def versions(group: str) -> dict[str, set[str]]:
        pinned: dict[str, set[str]] = {}
        for name, version in (line.split(" ;")[0].split("==") for line in pins(group)):
            pinned.setdefault(name, set()).add(version)
        return pinned

    by_group = {group: versions(group) for group in environment.BUILDS_ON}
    for before, after in combinations(environment.BUILDS_ON, 2):
        earlier, later = by_group[before], by_group[after]
        shared = earlier.keys() & later.keys()
        assert shared or (before, after) == ("cli", "report") or "proxy" in (before, after)
        assert {name: earlier[name] for name in shared} == {name: later[name] for name in shared}


def test_the_lock_leaves_torchs_cuda_packages_to_torch() -> None:
    names = pinned("\n".join(pins("local")))
    cuda = {name for name in names if name.startswith(("nvidia-", "cuda-")) or name == "triton"}
    assert cuda <= {"nvidia-ml-py"}


def test_exactly_one_build_of_xgboost_is_for_each_system() -> None:
    markers = [Marker(line.partition(" ; ")[2]) for line in pins("local") if line.startswith("xgboost")]
    assert len(markers) == 2
    for system in ("linux", "darwin", "win32"):
        for machine in ("x86_64", "aarch64", "arm64", "AMD64"):
            fits = [m.evaluate({"sys_platform": system, "platform_machine": machine}) for m in markers]
            assert sum(fits) == 1, (system, machine)
