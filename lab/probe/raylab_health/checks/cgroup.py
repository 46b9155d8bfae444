"""What the kernel counts for this node's control group: kills for want of memory, and CPU throttling."""

from __future__ import annotations

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError

RECENT_SECONDS = 600.0
"""Time for which a kill is held against the node."""

THROTTLED = 0.9
"""Part of the periods: a container with a CPU limit is throttled now and then whenever it works."""

LEAST_PERIODS = 20


def oom(context: Context, device: str = CPU) -> Finding:
    """WARN for some minutes after the kernel has killed a process of this node for want of memory."""
    count, source = kills(context)
    now = context.monotonic()
    last, since = context.notes.get("oom-kills", (count, None))
    if count > last:
        since = now
    context.notes["oom-kills"] = (count, since)
    bad = since is not None and now - since <= RECENT_SECONDS
    message = "the kernel killed a process for want of memory within the last 10 minutes" if bad else ""
    return Finding(WARN if bad else PASS, float(count), "kills", message, {source: count})


def kills(context: Context) -> tuple[int, str]:
    """Processes that were killed, and where that is counted. Raises NotHereError."""
    for path, name in (
        (f"sys/fs/cgroup{own_group(context)}/memory.events", "oom_kill"),
        (f"sys/fs/cgroup/memory{own_group(context, 'memory')}/memory.oom_control", "oom_kill"),
        ("proc/vmstat", "oom_kill"),
    ):
        try:
            return values(context, path)[name], f"{path} {name}"
        except (NotHereError, KeyError):
            continue
    raise NotHereError("this kernel does not count the processes that it kills for memory")


def throttling(context: Context, device: str = CPU) -> Finding:
    """WARN when the kernel has held back nearly all of the time since the last look."""
    counted = values(context, f"sys/fs/cgroup{own_group(context)}/cpu.stat")
    if "nr_periods" not in counted:
        raise NotHereError("this node has no CPU limit")
    now = (counted["nr_periods"], counted["nr_throttled"])
    last = context.notes.get("cpu-throttling", now)
    context.notes["cpu-throttling"] = now
    periods, throttled = now[0] - last[0], now[1] - last[1]
    part = throttled / periods if periods >= LEAST_PERIODS else 0.0
    message = (
        f"the kernel held it back {part:.0%} of the time: its CPU limit is low" if part > THROTTLED else ""
    )
    return Finding(
        WARN if message else PASS,
        round(100 * part, 1),
        "%",
        message,
        {"nr_throttled": counted["nr_throttled"]},
    )


def own_group(context: Context, controller: str = "") -> str:
    """Path of this process's control group, of version 2 or of a controller of version 1, or nothing."""
    for line in context.text("proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return "" if path == "/" else path
    return ""


def values(context: Context, path: str) -> dict[str, int]:
    """The `name number` lines of a file. Raises NotHereError."""
    pairs = [line.split() for line in context.text(path).splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


OOM = Check("oom-kills", NODE, 10.0, oom)
THROTTLING = Check("cpu-throttling", NODE, 10.0, throttling, worse_after=6, better_after=3)
