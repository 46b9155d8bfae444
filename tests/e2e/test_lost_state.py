"""A lab with settings of its own, repaired by a bare `up`; and one whose state file is lost while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable

import psutil

from lab.runtime.local import state
from tests.e2e.harness import Bench

REFUSED, LOST = 11, 20
SETTINGS = ("--gpu", "simulated", "--workers", "1", "--cpus-per-worker", "3")


def test_a_bare_up_repairs_and_a_lost_state_file_loses_nothing(make_bench: Callable[[], Bench]) -> None:
    bench = make_bench()
    bench.labctl("up", *SETTINGS)
    before, used = bench.leaders(), bench.state().ports
    assert bench.labctl("up", "--json").document["healthy"]
    assert bench.leaders() == before
    assert "not with 2 workers" in bench.labctl("up", "--workers", "2", code=REFUSED).err
    bench.runtime().kill("ray-worker-0")
    assert bench.labctl("up", "--json").document["healthy"]
    assert bench.state().spec.workers == 1
    bench.lab.store.put("e2e/precious", b"kept")

    running = {psutil.Process(pid) for pid, _ in bench.leaders().values()} | bench.servers_of_ray()
    path = bench.folder / state.FILE
    path.write_bytes(path.read_bytes()[:100])
    for command in (("status",), ("up",), ("up", *SETTINGS), ("--runtime", "auto", "up"), ("jobs",)):
        ended = bench.labctl(*command, code=LOST)
        named = ended.err.partition(f"but lab {bench.name} runs: ")[2].splitlines()[0].split(", ")
        assert set(named) == set(before)
        assert f"`labctl down --lab {bench.name}`" in ended.err
    document = json.loads(bench.labctl("status", "--json", code=LOST).out)
    assert document["error"]["code"] == "StateError"
    assert running <= set(bench.processes().values())
    path.unlink()
    assert "is missing, but lab" in bench.labctl("status", code=LOST).err

    assert "ray-worker-0" in bench.labctl("down").out
    bench.nothing_left(used)
    bench.labctl("up", *SETTINGS)
    assert bench.lab.store.get("e2e/precious") == b"kept"
    bench.labctl("down")
