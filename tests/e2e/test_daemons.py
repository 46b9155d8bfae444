"""What goes on in the background does not die quietly: damaged files, full disks, killed servers, interrupts.

One lab of two nodes goes through all of it, in the order of the tests.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from lab.daemons.queue.store import FILE
from lab.host.http import get
from lab.runtime.local.services import FORKS
from lab.services import HEAD, QUEUE
from lab.topology import State
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.waiting import eventually

DOWN, INTERRUPTED = 5, 130


@pytest.fixture(scope="module")
def own(make_bench: Callable[[], Bench]) -> Bench:
    bench = make_bench()
    bench.labctl(*UP)
    return bench


def queue_health(bench: Bench) -> dict[str, Any]:
    """What the controller of the queues says of itself."""
    reply = get(f"http://127.0.0.1:{bench.state().ports[QUEUE]}/healthz")
    assert reply is not None
    page: dict[str, Any] = json.loads(reply.data)
    return page | {"http": reply.status}


def test_a_damaged_file_of_the_queues_is_set_aside_and_the_rest_starts(own: Bench) -> None:
    own.labctl("queue", "apply", "--example", "classroom")
    own.lab.store.put("e2e/precious", b"kept")
    own.labctl("down")
    path = own.folder / "queue" / FILE
    path.write_bytes(b"hello" + path.read_bytes()[5:])
    damaged = path.read_bytes()

    said = own.labctl(*UP).err
    (kept,) = (own.folder / "queue").glob("queue-damaged-*.sqlite")
    assert kept.read_bytes() == damaged
    assert str(kept) in said
    shown = own.labctl("status", "--json").document
    assert shown["healthy"]
    (detail,) = [service["detail"] for service in shown["services"] if service["service"] == QUEUE]
    assert detail == f"the queues started empty: the damaged file is kept as {kept}"
    assert own.lab.store.get("e2e/precious") == b"kept"
    kept.unlink()
    own.labctl("restart", QUEUE)
    assert eventually(lambda: queue_health(own), PATIENCE, "the queues answer")["detail"] == ""


def test_a_loop_that_cannot_write_says_so_and_goes_on_once_it_can(own: Bench) -> None:
    own.labctl("queue", "apply", "--example", "classroom")
    queued = ("submit", "digits", "--queue", "ann/default", "-p", "epochs=3", "--detach", "--json")
    job = own.labctl(*queued).document["workload"]
    eventually(lambda: own.lab.queues.describe(job).status == "Admitted", PATIENCE, "it is admitted")
    controller = psutil.Process(own.state().leaders[QUEUE].pid)
    limit = controller.rlimit(psutil.RLIMIT_FSIZE)
    controller.rlimit(psutil.RLIMIT_FSIZE, (1024, limit[1]))  # its log, too, takes no line any more
    try:

        def stopped() -> dict[str, Any]:
            page = queue_health(own)
            assert page["http"] == 503, page
            return page

        stuck = eventually(stopped, PATIENCE, "it says that it is stuck")
        assert stuck["status"] == "stuck"
        assert "queue-loop has completed no step for" in stuck["detail"]

        def unhealthy() -> list[str]:
            shown = own.labctl("status", "--json").document
            assert not shown["healthy"]
            return [one["service"] for one in shown["services"] if one["state"] != "healthy"]

        eventually(lambda: unhealthy() == [QUEUE], PATIENCE, "the queues alone are not healthy")
    finally:
        controller.rlimit(psutil.RLIMIT_FSIZE, limit)
    eventually(lambda: own.lab.queues.describe(job).status == "Finished", PATIENCE, "it goes on")
    # The step in which the job ended has to end, too.
    eventually(lambda: queue_health(own)["status"] == "ok", PATIENCE, "it says so")
    assert controller.is_running()


def test_up_repairs_a_lab_whose_fork_server_and_head_were_killed(own: Bench) -> None:
    psutil.Process(own.state().leaders[FORKS].pid).kill()
    (gcs,) = [p for p in own.processes().values() if p.name() == "gcs_server"]
    gcs.kill()
    eventually(lambda: own.state_of(HEAD) is not State.HEALTHY, PATIENCE, "the head has ended")
    own.labctl("up")
    assert own.healthy()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_fault_is_undone_waits_for_that(own: Bench, number: signal.Signals) -> None:
    job = own.submit("resumes.py", "never")
    target = own.where(job)
    before = own.leaders()[target]
    fault = own.start("fault-inject", target, "--for", "1s", "--job", job)
    fault.says("kill", target)
    eventually(lambda: own.leaders()[target] != before, PATIENCE, "the node is being started again")
    fault.signal(number)
    ended = fault.end()
    assert ended.code in (INTERRUPTED, 128 + number), ended
    assert own.state_of(target) is State.HEALTHY, ended
    assert not list((own.folder / "faults").glob("*.json"))
    own.stop_jobs()


def test_a_wait_for_a_fault_ends_when_the_lab_is_taken_down(own: Bench) -> None:
    scratch = own.runtime()._layout.scratch
    job = own.submit("resumes.py", "never")
    fault = own.start("fault-inject", own.where(job), "--after-epoch", "18", "--job", job)
    fault.says("waiting")
    used = dict(own.state().ports)
    assert list(scratch.iterdir()), "nothing is where temporary files should be"
    own.labctl("down")
    ended = fault.end()
    assert ended.code == DOWN, ended
    assert f"lab {own.name} was taken down meanwhile, and job {job} with it" in ended.err
    own.nothing_left(used)
