"""A runtime in memory, for tests of what is built on runtimes: faults, flows, the command line.

It keeps what lab.runtime.base promises and passes the same contract suite as the real runtimes. Time is a
`FakeClock` that only `sleep` moves. Runtimes that share a `FakeHost` see the same labs, as shells of one
machine do; like them, a `FakeRuntime` remembers nothing itself.

    runtime = FakeRuntime("raylab")
    runtime.clock.after(5, lambda: runtime.die("ray-worker-0"))
"""

from __future__ import annotations

from tests.fakes.host import Call, FakeClock, FakeHost
from tests.fakes.runtime import FakeRuntime

__all__ = ["Call", "FakeClock", "FakeHost", "FakeRuntime"]
