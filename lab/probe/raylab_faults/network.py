"""Slows down the network of the container beside which labctl runs it, in the same network namespace.

    python network.py impair --delay-ms 100 --loss-percent 1 --rate-mbit 10
    python network.py clear
    python network.py abilities

Needs CAP_NET_ADMIN in that namespace, tc, ip and iptables. Both ways are treated alike: what comes in is sent
through a device of its own (ifb), since tc delays only what goes out. With netem in the kernel it does
everything; without, tbf limits the rate, iptables loses packets, and nothing can delay them.

Prints JSON: for `abilities` an object with `delay`, `loss` and `rate`, each the reason why not, or empty.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

DEVICES = "eth"
"""Prefix of a container's interfaces: eth0; eth1 once it was disconnected and connected again."""
INCOMING = "ifb0"
CHAINS = ("INPUT", "-i"), ("OUTPUT", "-o")
COMMAND_SECONDS = 10.0
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

QUEUE_MS = 400
"""Milliseconds that a packet may be queued under a rate before tbf drops it."""
BURST_SECONDS = 0.02
LEAST_BURST_BYTES = 16_000
"""At full rate for this long, but at least this much, may be sent at once."""

NO_NETEM = "the kernel of this machine has no netem (CONFIG_NET_SCH_NETEM)"


class CommandError(Exception):
    """A command failed: its line and what it said."""


Run = Callable[[Sequence[str]], None]


def run(argv: Sequence[str]) -> None:
    """Run a command of the system. Raises CommandError."""
    try:
        ended = subprocess.run(
            list(argv), capture_output=True, text=True, timeout=COMMAND_SECONDS, env=ENVIRONMENT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{argv[0]}: {error}") from error
    if ended.returncode:
        raise CommandError(f"`{' '.join(argv)}`: {' '.join(ended.stderr.split()) or ended.returncode}")


def devices(names: Iterable[tuple[int, str]]) -> list[str]:
    """The container's interfaces among these: one, or none while it is cut off."""
    return [name for _, name in names if name.startswith(DEVICES)]


def can(run: Run, *argv: str) -> str:
    """The reason for which a command fails; empty when it works."""
    try:
        run(argv)
    except CommandError as error:
        return str(error)
    return ""


def abilities(run: Run) -> dict[str, str]:
    """Reasons for which this kernel lacks an ability: tried on loopback, in a namespace nobody needs."""
    netem = can(run, "tc", "qdisc", "replace", "dev", "lo", "root", "netem", "delay", "1ms")
    if not netem:
        return {"delay": "", "loss": "", "rate": ""}
    delay = NO_NETEM if "unknown" in netem else netem
    loss = can(run, *_loss("INPUT", "-i", "lo", 50.0))
    rate = can(run, "tc", "qdisc", "replace", "dev", "lo", "root", *_tbf(10.0))
    return {"delay": delay, "loss": loss, "rate": rate}


def clear(run: Run, devices: Iterable[str]) -> None:
    """Undo what `impair` did, all of it, whatever is there."""
    for device in devices:
        can(run, "tc", "qdisc", "del", "dev", device, "root")
        can(run, "tc", "qdisc", "del", "dev", device, "ingress")
    can(run, "ip", "link", "del", INCOMING)
    for chain, _ in CHAINS:
        can(run, "iptables", "-w", "-F", chain)


def impair(run: Run, devices: Sequence[str], delay_ms: float, loss_percent: float, rate_mbit: float) -> None:
    """Slow both ways down; 0 leaves a thing as it is. Raises CommandError; then nothing of it stays."""
    if not devices:
        raise CommandError("the container is on no network")
    device = devices[0]
    clear(run, devices)
    try:
        netem = _netem(delay_ms, loss_percent, rate_mbit)
        if can(run, "tc", "qdisc", "replace", "dev", device, "root", *netem):
            if delay_ms:
                raise CommandError(f"a delay needs netem: {NO_NETEM}")
            if loss_percent:
                for chain, way in CHAINS:
                    run(_loss(chain, way, device, loss_percent))
            if not rate_mbit:
                return
            netem = _tbf(rate_mbit)
            run(("tc", "qdisc", "replace", "dev", device, "root", *netem))
        run(("ip", "link", "add", INCOMING, "type", "ifb"))
        run(("ip", "link", "set", INCOMING, "up"))
        run(("tc", "qdisc", "add", "dev", device, "ingress"))
        everything = ("protocol", "all", "u32", "match", "u32", "0", "0")
        through = ("action", "mirred", "egress", "redirect", "dev", INCOMING)
        run(("tc", "filter", "add", "dev", device, "parent", "ffff:", *everything, *through))
        run(("tc", "qdisc", "replace", "dev", INCOMING, "root", *netem))
    except CommandError:
        clear(run, devices)
        raise


def _netem(delay_ms: float, loss_percent: float, rate_mbit: float) -> tuple[str, ...]:
    rule: tuple[str, ...] = ("netem", "limit", "10000")
    if delay_ms:
        rule += ("delay", f"{delay_ms:g}ms")
    if loss_percent:
        rule += ("loss", f"{loss_percent:g}%")
    if rate_mbit:
        rule += ("rate", f"{rate_mbit:g}mbit")
    return rule


def _tbf(rate_mbit: float) -> tuple[str, ...]:
    burst = max(LEAST_BURST_BYTES, round(rate_mbit * 1e6 / 8 * BURST_SECONDS))
    return ("tbf", "rate", f"{rate_mbit:g}mbit", "burst", f"{burst}b", "latency", f"{QUEUE_MS}ms")


def _loss(chain: str, way: str, device: str, percent: float) -> tuple[str, ...]:
    chance = ("-m", "statistic", "--mode", "random", "--probability", f"{percent / 100:.6f}")
    return ("iptables", "-w", "-A", chain, way, device, *chance, "-j", "DROP")


def main(
    argv: Sequence[str] | None = None,
    run: Run = run,
    interfaces: Callable[[], Iterable[tuple[int, str]]] = socket.if_nameindex,
) -> int:
    """The exit code is 0, or 1 with the reason on the last line of stderr."""
    parser = argparse.ArgumentParser(prog="network.py", allow_abbrev=False)
    parser.add_argument("what", choices=("impair", "clear", "abilities"))
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--loss-percent", type=float, default=0.0)
    parser.add_argument("--rate-mbit", type=float, default=0.0)
    args = parser.parse_args(argv)
    answer: dict[str, str] = {}
    try:
        if args.what == "abilities":
            answer = abilities(run)
        elif args.what == "clear":
            clear(run, devices(interfaces()))
        else:
            impair(run, devices(interfaces()), args.delay_ms, args.loss_percent, args.rate_mbit)
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{json.dumps(answer)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
