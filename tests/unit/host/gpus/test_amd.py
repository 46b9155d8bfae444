from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.host.gpus import Gpu, amd_gpus
from lab.topology import Vendor

GIB = 1024**3

# Trees like /sys/class/kfd/kfd/topology, cut down to some of the lines that the kernel writes.

PROPERTIES = """\
cpu_cores_count {cpus}
simd_count {simd}
mem_banks_count 1
caches_count 206
max_waves_per_simd {waves}
lds_size_in_kb 64
wave_front_size 64
gfx_target_version {gfx}
vendor_id {vendor}
device_id 29704
location_id {location}
domain 0
drm_render_minor {minor}
hive_id 0
local_mem_size 0
capability 671588992
unique_id {unique}
num_xcc 1
max_engine_clk_ccompute 3400
"""


def node(root: Path, number: int, **fields: Any) -> None:
    values = {"cpus": 0, "simd": 0, "waves": 0, "gfx": 0, "vendor": 0, "location": 0, "minor": 0, "unique": 0}
    memory, heap = fields.pop("memory", 0), fields.pop("heap", 1)
    folder = root / "sys/class/kfd/kfd/topology/nodes" / str(number)
    bank = folder / "mem_banks/0"
    bank.mkdir(parents=True)
    (folder / "name").write_text("\n")
    (folder / "gpu_id").write_text(f"{fields.get('location', 0)}\n")
    (folder / "properties").write_text(PROPERTIES.format(**{**values, **fields}))
    (bank / "properties").write_text(f"heap_type {heap}\nsize_in_bytes {memory}\nflags 0\nwidth 8192\n")
    if fields.get("minor"):
        for device_node in (f"dev/dri/renderD{fields['minor']}", "dev/kfd"):
            (root / device_node).parent.mkdir(parents=True, exist_ok=True)
            (root / device_node).touch()


def cpu(root: Path, number: int) -> None:
    node(root, number, cpus=64, memory=256 * GIB, heap=0)


def gpu(root: Path, number: int, minor: int, **fields: Any) -> None:
    values = {
        "simd": 416,
        "waves": 8,
        "gfx": 90010,
        "vendor": 4098,
        "location": 256 * number,
        "memory": 64 * GIB,
    }
    node(root, number, **{**values, "minor": minor, "unique": 0x1000 + number, **fields})


def test_amd_gpus_are_the_nodes_with_simd_units_and_their_render_node_is_the_kernels(tmp_path: Path) -> None:
    cpu(tmp_path, 0)
    gpu(tmp_path, 1, minor=129)
    gpu(tmp_path, 2, minor=128, gfx=90402, memory=192 * GIB)
    groups = {"kfd": 105, "renderD128": 105, "renderD129": 44}
    detection = amd_gpus(tmp_path, group=lambda path: groups[path.name])
    assert detection.problem == ""
    assert detection.gpus == (
        Gpu(
            Vendor.AMD,
            "GPU-0000000000001001",
            0,
            "gfx90a",
            64 * GIB,
            ("/dev/kfd", "/dev/dri/renderD129"),
            129,
            (105, 44),
        ),
        Gpu(
            Vendor.AMD,
            "GPU-0000000000001002",
            1,
            "gfx942",
            192 * GIB,
            ("/dev/kfd", "/dev/dri/renderD128"),
            128,
            (105, 105),
        ),
    )


def test_nodes_are_counted_in_the_order_of_their_numbers_not_of_their_spelling(tmp_path: Path) -> None:
    cpu(tmp_path, 0)
    cpu(tmp_path, 1)
    for number in range(2, 10):
        gpu(tmp_path, number, minor=120 + 8 * number)
    gpu(tmp_path, 10, minor=250)
    gpus = amd_gpus(tmp_path).gpus
    assert [g.index for g in gpus] == list(range(9))
    assert [g.render_minor for g in gpus] == [136, 144, 152, 160, 168, 176, 184, 192, 250]


@pytest.mark.parametrize("cores", [0, 16], ids=["a node of its own", "one node with the cores"])
def test_the_processors_own_gpu_is_left_out_but_counts_in_hips_order(tmp_path: Path, cores: int) -> None:
    node(
        tmp_path,
        0,
        cpus=cores or 16,
        simd=8 if cores else 0,
        gfx=90012 if cores else 0,
        minor=128 if cores else 0,
        memory=GIB // 2,
    )
    gpu(tmp_path, 1, minor=129, gfx=110000, memory=24 * GIB)
    if not cores:
        gpu(tmp_path, 2, minor=128, gfx=100306, simd=4, unique=0, memory=GIB // 2)
    detection = amd_gpus(tmp_path)
    assert [(g.index, g.name) for g in detection.gpus] == [(1 if cores else 0, "gfx1100")]
    assert "left out: built into the processor, 512 MiB" in detection.problem
    assert ("gfx90c" if cores else "gfx1036") in detection.problem


def test_a_gpu_of_unknown_memory_and_without_unique_id_is_taken(tmp_path: Path) -> None:
    gpu(tmp_path, 1, minor=128, unique=0, memory=0)
    (taken,) = amd_gpus(tmp_path).gpus
    assert (taken.uuid, taken.memory_bytes, taken.label) == ("", 0, "gfx90a")


def test_a_gpu_that_this_user_may_not_open_is_left_out_with_the_groups_to_join(tmp_path: Path) -> None:
    gpu(tmp_path, 1, minor=128)
    detection = amd_gpus(tmp_path, accessible=lambda path: path.name != "renderD128")
    assert detection.gpus == ()
    assert "/dev/dri/renderD128" in detection.problem
    assert "render" in detection.hint


def test_a_gpu_whose_owners_cannot_be_told_is_taken_without_groups(tmp_path: Path) -> None:
    def unknown(path: Path) -> int:
        raise PermissionError(path)

    gpu(tmp_path, 1, minor=128)
    (taken,) = amd_gpus(tmp_path, group=unknown).gpus
    assert taken.groups == ()


def test_a_node_that_a_container_may_not_read_is_not_there(tmp_path: Path) -> None:
    gpu(tmp_path, 1, minor=128)
    gpu(tmp_path, 2, minor=129)
    hidden = tmp_path / "sys/class/kfd/kfd/topology/nodes/1/properties"
    hidden.unlink()
    hidden.mkdir()  # reading it fails, as the kernel's refusal does; root may read any plain file
    assert [(g.index, g.render_minor) for g in amd_gpus(tmp_path).gpus] == [(0, 129)]


def test_without_the_kernel_driver_there_is_no_amd_gpu(tmp_path: Path) -> None:
    detection = amd_gpus(tmp_path)
    assert detection.gpus == ()
    assert "not loaded" in detection.problem
    assert "modprobe amdgpu" in detection.hint


def test_a_driver_with_processors_only_sees_no_amd_gpu(tmp_path: Path) -> None:
    cpu(tmp_path, 0)
    assert "sees no GPU" in amd_gpus(tmp_path).problem
